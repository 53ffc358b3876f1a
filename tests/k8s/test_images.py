"""Images that `hpo build` makes, with a real builder, and pods that run them."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.k8s.lab import PodLab, Watch
from tests.k8s.packages import NEEDS, write_wheel
from tests.k8s.stories import Story, each

IMAGE, BASE = "team.example/needs:1", "team.example/base:1"
STORAGE = """[storage]
driver = "overlay"
graphroot = "{folder}/images"
runroot = "{folder}/run"
"""


def an_image_that_hpo_build_makes_has_the_code_and_its_packages(lab: PodLab) -> None:
    code = lab.training_with("needs.py", NEEDS)
    write_wheel(code, "tiny_need", "1.5")
    (code / "requirements.txt").write_text("./tiny_need-1.5-py3-none-any.whl\n")
    whole = {"command": "python needs.py", "scheduler": {"name": "default", "max_steps": 9}}
    file = lab.write_study("k8s_code", **whole, code=str(code), runner="kubernetes")
    with TemporaryDirectory(prefix="hpo-build-") as folder:
        build(lab, file, Path(folder))
    file.unlink()
    name = lab.add_pod_study("k8s_built", **whole, code=None, image=IMAGE, trials=1)
    with Watch(lab, name) as watch:
        study = lab.ended(name, lab.trigger(name))
    assert study.counts["completed"] == 1
    assert "tiny_need 1.5 and numpy of the image" in lab.training_log(study)
    (pod,) = watch.seen.values()
    assert pod.spec.containers[0].image == IMAGE
    assert [item.name for item in pod.spec.init_containers if item.name != "agent"] == ["restore"]


def build(lab: PodLab, file: Path, folder: Path) -> None:
    """Builds the image of a study on top of one that the cluster has, and hands it to a node."""
    local = lab.cluster.local
    assert local is not None
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    environment = {
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "BUILDAH_ISOLATION": "chroot",  # root in a container is enough
        "TMPDIR": str(folder),
    }

    def buildah(*words: str) -> str:
        done = subprocess.run(
            ["buildah", *words],
            env={**lab.stack.environment(), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    local.export_image(lab.cluster.images.python, folder / "base.tar")
    buildah("tag", buildah("pull", "--quiet", f"oci-archive:{folder / 'base.tar'}"), BASE)
    made = lab.hpo(
        "build", str(file), "--tag", IMAGE, "--base", BASE, "--with", "buildah", **environment
    )
    assert made.returncode == 0, made.stderr
    assert f"image: {IMAGE}" in made.stdout
    buildah("push", "--quiet", IMAGE, f"docker-archive:{folder / 'image.tar'}:{IMAGE}")
    local.import_image(folder / "image.tar", node="cpu-0")
    buildah("rmi", "--all", "--force")


@each([an_image_that_hpo_build_makes_has_the_code_and_its_packages])
@pytest.mark.usefixtures("own_cluster", "builder")
def test_images(told: dict[Story, Future[None]], story: Story) -> None:
    told[story].result()


@pytest.fixture
def builder() -> None:
    if shutil.which("buildah") is None:
        pytest.skip("no buildah here to build an image with")
