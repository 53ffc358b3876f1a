"""What the trials of a study are made from."""

from __future__ import annotations

from pathlib import Path

from hpo_ops.checkpoints import hash_code
from hpo_ops.client import Origin
from hpo_ops.config import parse_study
from hpo_ops.runners.origin import find_origin
from tests.studies import study_data


def test_a_local_study_is_made_from_its_code_folder(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    study = parse_study(study_data(code=str(tmp_path)), source="test")
    assert find_origin(study, {}).code_hash == hash_code(tmp_path)
    assert find_origin(study, {}).image is None


def test_pods_are_made_from_an_image_as_well() -> None:
    data = study_data(code=None, image="team/model@sha256:12", runner="kubernetes")
    named = parse_study(data, source="test")
    assert find_origin(named, {}) == Origin(image="team/model@sha256:12")
    platform = parse_study(study_data(code="tests/e2e", runner="kubernetes"), source="test")
    assert find_origin(platform, {"HPO_AGENT_IMAGE": "hpo:7"}).image == "hpo:7"
