"""Images of studies, with a builder that only takes notes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.commands import app
from tests.studies import study_data

BUILDER = f"""#!{sys.executable}
import json, pathlib, sys
notes = pathlib.Path(__file__).with_name("notes.jsonl")
words = sys.argv[1:]
note = {{"words": words}}
if "--file" in words:
    note["dockerfile"] = pathlib.Path(words[words.index("--file") + 1]).read_text()
    context = pathlib.Path(words[-1])
    note["files"] = sorted(path.name for path in context.rglob("*") if path.is_file())
with notes.open("a") as stream:
    stream.write(json.dumps(note) + "\\n")
sys.exit(int(pathlib.Path(__file__).with_name("exit_code").read_text()))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for programs that is all of PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "exit_code").write_text("0")
    monkeypatch.setenv("PATH", str(programs))
    for name in ("HPO_TRAINING_IMAGE", "HPO_AGENT_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    return programs


def add_builder(folder: Path, name: str) -> None:
    (folder / name).write_text(BUILDER)
    (folder / name).chmod(0o755)


def notes(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "notes.jsonl").read_text().splitlines()]


def write_study(tmp_path: Path, **changes: Any) -> Path:
    code = tmp_path / "code"
    (code / ".git").mkdir(parents=True)
    (code / ".git" / "HEAD").write_text("ref")
    (code / "train.py").write_text("print(1)")
    (code / "requirements.txt").write_text("numpy")
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(study_data(name="Small_1", code="code", **changes)))
    return file


def build(*words: str | Path) -> Any:
    return CliRunner().invoke(app, ["build", *map(str, words)])


def test_the_dockerfile_has_the_base_the_packages_the_code_and_a_plain_user(
    folder: Path, tmp_path: Path
) -> None:
    file = write_study(tmp_path, command="python train.py --name 'a b'")
    result = build(file, "--print", "--base", "team/base:1")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[1:] == [
        "FROM team/base:1",
        "USER root",
        "RUN python -c 'import pwd; pwd.getpwuid(1000)' 2>/dev/null || "
        "useradd --create-home --uid 1000 hpo",
        "WORKDIR /srv/code",
        "COPY --chown=1000:1000 . .",
        "ARG PIP_BREAK_SYSTEM_PACKAGES=1",
        'RUN ["python", "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check", '
        '"-r", "requirements.txt"]',
        "USER 1000",
        'CMD ["python", "train.py", "--name", "a b"]',
    ]


def test_the_base_is_the_studys_image_or_the_platforms(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_study(tmp_path)
    assert "FROM hpo-ops:latest\n" in build(file, "--print").stdout
    monkeypatch.setenv("HPO_AGENT_IMAGE", "agent:1")
    assert "FROM agent:1\n" in build(file, "--print").stdout
    monkeypatch.setenv("HPO_TRAINING_IMAGE", "training:1")
    assert "FROM training:1\n" in build(file, "--print").stdout
    named = tmp_path / "named.yaml"
    study = study_data(name="b", code="code", image="mine:1", runner="kubernetes")
    named.write_text(yaml.safe_dump(study))
    assert "FROM mine:1\n" in build(named, "--print").stdout


@pytest.mark.parametrize(("name", "verb"), [("docker", "build"), ("buildah", "bud")])
def test_an_image_is_built_of_what_pods_would_get(
    folder: Path, tmp_path: Path, name: str, verb: str
) -> None:
    add_builder(folder, name)
    result = build(write_study(tmp_path))
    assert result.exit_code == 0, result.stderr
    (note,) = notes(folder)
    assert note["words"][:2] == [verb, "--tag"]
    image = note["words"][2]
    assert image.startswith("small-1:")
    assert note["files"] == ["requirements.txt", "train.py"]
    assert "FROM hpo-ops:latest" in note["dockerfile"]
    assert "instead of code" in result.stdout
    assert f"  image: {image}\n  runner: docker  # or kubernetes" in result.stdout


def test_an_image_is_pushed_under_the_name_that_was_given(folder: Path, tmp_path: Path) -> None:
    add_builder(folder, "podman")
    file = write_study(tmp_path, stop={"when": "criteria:enough"}, runner="kubernetes")
    result = build(file, "--tag", "registry.example.org/me/small:1", "--push")
    assert [note["words"][0] for note in notes(folder)] == ["build", "push"]
    assert notes(folder)[1]["words"] == ["push", "registry.example.org/me/small:1"]
    # The criterion is called by a task, which needs the code; the pods need not install again.
    assert "beside code:\n  image: registry.example.org/me/small:1\n  install: false" in (
        result.stdout
    )


def test_without_a_builder_it_says_what_was_looked_for(folder: Path, tmp_path: Path) -> None:
    error = build(write_study(tmp_path)).exception
    assert isinstance(error, CommandError)
    assert "looked for docker, podman, buildah" in str(error)


def test_a_builder_can_be_named(folder: Path, tmp_path: Path) -> None:
    for name in ("docker", "buildah"):
        add_builder(folder, name)
    file = write_study(tmp_path)
    assert build(file, "--with", "buildah").exit_code == 0
    assert notes(folder)[0]["words"][0] == "bud"
    unknown = build(file, "--with", "kaniko").exception
    assert str(unknown) == "--with is 'kaniko', but must be one of docker, podman, buildah"
    missing = build(file, "--with", "podman").exception
    assert "looked for podman" in str(missing)


def test_a_builder_that_fails_fails_the_command(folder: Path, tmp_path: Path) -> None:
    add_builder(folder, "docker")
    (folder / "exit_code").write_text("3")
    error = build(write_study(tmp_path)).exception
    assert isinstance(error, CommandError)
    assert str(error).endswith("docker build failed with exit code 3")


@pytest.mark.parametrize(
    ("changes", "words", "message"),
    [
        (
            {"code": None, "image": "mine:1", "runner": "kubernetes"},
            [],
            "its image mine:1",
        ),
        ({}, ["--push"], "--push needs --tag"),
    ],
)
def test_what_cannot_be_built_is_refused(
    folder: Path, tmp_path: Path, changes: dict[str, Any], words: list[str], message: str
) -> None:
    write_study(tmp_path)
    file = tmp_path / "other.yaml"
    file.write_text(yaml.safe_dump(study_data(name="other", **{"code": "code", **changes})))
    error = build(file, *words).exception
    assert isinstance(error, CommandError)
    assert message in str(error)
