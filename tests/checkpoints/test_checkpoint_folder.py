from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.checkpoints._checkpoint_folder import BadCheckpointError, files_of
from hpo_ops.checkpoints.manifest import Manifest, ManifestFile, check_path
from hpo_ops.protocol import MARKER, Folder


def listed(path: Path) -> list[str]:
    with Folder.open(path) as folder:
        return files_of(folder)


def test_files_are_listed_without_the_marker(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/x", "a", MARKER):
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a")
    assert listed(tmp_path) == ["a", "b/x", "link"]


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside"])
def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "outside").touch()
    folder = tmp_path / "3"
    folder.mkdir()
    (folder / "link").symlink_to(target)
    with pytest.raises(BadCheckpointError, match="checkpoint 3: link is a link that leaves"):
        listed(folder)


def test_a_linked_folder_a_dead_link_and_a_pipe_are_refused(tmp_path: Path) -> None:
    for name in ("folder", "dead", "pipe"):
        folder = tmp_path / name
        (folder / "real").mkdir(parents=True)
        if name == "folder":
            (folder / "loop").symlink_to("real")
        elif name == "dead":
            (folder / "loop").symlink_to("nowhere")
        else:
            os.mkfifo(folder / "loop")
        with pytest.raises(BadCheckpointError, match="loop is not a regular file"):
            listed(folder)


def test_the_name_of_the_manifest_is_reserved(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").touch()
    with pytest.raises(BadCheckpointError, match=r"manifest\.json is a reserved name"):
        listed(tmp_path)


@given(st.lists(st.sampled_from(["a", "b.pt", "..", ".", "", "c d"]), min_size=1, max_size=5))
def test_a_path_is_accepted_only_if_it_stays_inside(parts: list[str]) -> None:
    path = "/".join(parts)
    is_plain = os.path.normpath(path) == path and path not in (".", "..")
    is_inside = is_plain and not path.startswith(("/", "../"))
    if is_inside:
        check_path(path)
    else:
        with pytest.raises(ValueError, match="must stay inside"):
            check_path(path)


names = st.text("abc._- é#%", min_size=1).filter(lambda name: name not in (".", ".."))


@given(st.integers(0), st.lists(st.tuples(names, st.integers(0), st.text())))
def test_a_manifest_survives_json(step: int, files: list[tuple[str, int, str]]) -> None:
    manifest = Manifest(step, tuple(ManifestFile(*file) for file in files))
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_a_manifest_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version is 2, but must be 1"):
        Manifest.from_json(b'{"version": 2, "step": 1, "files": []}')
