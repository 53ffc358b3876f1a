"""What the trials of a study are made from."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hpo_ops.airflow.code_provenance import describe_code, find_origin
from hpo_ops.checkpoints import hash_code
from hpo_ops.config import parse_study
from hpo_ops.protocol import Provenance
from tests.studies import study_data


def test_a_local_study_is_made_from_its_code_folder(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    study = parse_study(study_data(code=str(tmp_path)), source="test")
    assert find_origin(study, {}).code_hash == hash_code(tmp_path)
    assert find_origin(study, {}).image is None


def test_pods_are_made_from_an_image_as_well() -> None:
    data = study_data(code=None, image="team/model@sha256:12", runner="kubernetes")
    named = parse_study(data, source="test")
    assert find_origin(named, {}) == Provenance(image="team/model@sha256:12")
    platform = parse_study(study_data(code="tests/e2e", runner="kubernetes"), source="test")
    assert find_origin(platform, {"HPO_AGENT_IMAGE": "hpo:7"}).image == "hpo:7"


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_code_in_a_repository_has_its_commit_and_says_whether_it_differs(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print(1)")
    assert describe_code(code).commit is None
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "--quiet", "-m", "First")
    clean = describe_code(code)
    assert clean.commit == git(tmp_path, "rev-parse", "HEAD")
    assert clean.is_dirty is False
    (tmp_path / "elsewhere.txt").write_text("no part of the code")
    assert describe_code(code) == clean
    assert describe_code(code, known=clean.code_hash) == Provenance()
    (code / "train.py").write_text("print(2)")
    changed = describe_code(code, known=clean.code_hash)
    assert (changed.commit, changed.is_dirty) == (clean.commit, True)
    assert changed.code_hash != clean.code_hash
