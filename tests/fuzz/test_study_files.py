"""Damaged study files, and near-valid studies and jobs: taken, or refused by a sentence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpo_ops.config import StudyConfig, StudyError, parse_study
from hpo_ops.config._study_loading import load_study
from hpo_ops.config.job_file import Job, parse_job, study_of
from hpo_ops.samplers._sampler_registry import SAMPLERS
from hpo_ops.schedulers import SCHEDULERS
from tests.fuzz.conftest import Fuzz
from tests.fuzz.mutations import damaged, near
from tests.fuzz.outcomes import outcome
from tests.jobs import SAMPLE
from tests.studies import study_data

FILES = sorted(Path("dags/studies").glob("*.yaml")) + sorted(Path("examples").glob("*/study.yaml"))
_BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % (n, n, *[n - 1] * 9)
    for n in range(ord("b"), ord("i"))
)
TOKENS = (
    b"&a ", b"*a", b"<<: *a\n", b"!!python/object/apply:os.system [id]", b"!!binary x", b"{", b"]",
    b"? ", b": ", b"- ", b"|\n", b"\t", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"---\n",
    b"%YAML 9", b"1e999", b"0x" + b"f" * 400, b"9" * 5000, b"2024-13-45", b"[" * 2000,
    b"\n  " * 50, _BOMB,
)  # fmt: skip


def _keys(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        found = set(schema.get("properties", {})) | {
            value for value in schema.get("enum", []) if isinstance(value, str)
        }
        return found.union(*map(_keys, schema.values()))
    return set().union(*map(_keys, schema)) if isinstance(schema, list) else set()


NAMES = sorted(_keys(StudyConfig.model_json_schema()) | set(SCHEDULERS) | set(SAMPLERS))
STUDIES = [
    study_data(code=None),
    study_data(code=None, sampler="grid", flow="rolling", scheduler="default"),
    study_data(
        code=None,
        constraints=["width <= 32", "lr * width <= 1"],
        stop={"target": 0.9, "max_seconds": 100},
        resources={"cpu": 1, "memory": "1Gi", "gpu": 1},
        enqueue=[{"lr": 0.01}],
        repeats=2,
    ),
    *(yaml.safe_load(file.read_text()) | {"code": None} for file in FILES),
]


@pytest.mark.fuzz(80)
def test_a_damaged_study_file_is_refused_by_a_sentence(tmp_path: Path, fuzz: Fuzz[bytes]) -> None:
    file = tmp_path / "study.yaml"
    (tmp_path / "examples").symlink_to(Path("examples").resolve())

    def check(text: bytes) -> Counter[str]:
        file.write_bytes(text)
        return outcome(lambda: load_study(file), StudyError)

    fuzz(damaged([file.read_bytes() for file in FILES], tokens=TOKENS), check)


@pytest.mark.fuzz(100)
def test_a_nearly_valid_study_is_refused_by_a_sentence(fuzz: Fuzz[Any]) -> None:
    def check(data: Any) -> Counter[str]:
        return outcome(lambda: parse_study(data, source="fuzz"), StudyError)

    fuzz(near(STUDIES, names=NAMES), check)


@pytest.mark.fuzz(80)
def test_a_nearly_valid_job_is_refused_by_a_sentence(fuzz: Fuzz[Any]) -> None:
    def check(data: Any) -> Counter[str]:
        return outcome(
            lambda: study_of(parse_job(data), code="/code", runner="kubernetes"), StudyError
        )

    names = sorted(_keys(Job.model_json_schema()))
    fuzz(near([dict(SAMPLE)], names=names), check)
