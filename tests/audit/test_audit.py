from __future__ import annotations

import json
import zipfile
from email.message import Message
from importlib.metadata import distributions
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.audit.advisories import NoAdvisoriesError, from_export, from_index
from tests.audit.licences import is_accepted, licence_problems
from tests.audit.pinned_versions import pin_problems, read_pins
from tests.audit.silenced_rules import SHIPPED, unexplained

ROOT = Path(__file__).parents[2]
PINS = {"thing": "1.0", "other": "2.0"}


def test_the_licence_of_every_dependency_is_accepted() -> None:
    assert licence_problems(distributions()) == []


def test_of_proprietary_packages_only_those_of_pytorch_for_gpus_are_accepted() -> None:
    packages: list[Any] = []
    for name in ("nvidia-cublas", "cuda-toolkit", "unknown"):
        metadata = Message()
        metadata["Name"], metadata["License"] = name, "Proprietary"
        packages.append(SimpleNamespace(metadata=metadata, version="1.0"))
    assert licence_problems(packages) == ["unknown 1.0: licence is Proprietary"]
    assert pin_problems({}, packages) == ["unknown 1.0 is installed, pinned is nothing"]


def test_no_security_rule_is_silenced_without_a_reason() -> None:
    files = [path for name in SHIPPED for path in (ROOT / name).rglob("*.py")]
    assert unexplained(ROOT, files) == []


def test_every_dependency_is_pinned_to_one_version() -> None:
    assert len(read_pins((ROOT / "constraints.txt").read_text())) > 100
    with pytest.raises(ValueError, match="does not pin"):
        read_pins("thing>=1.0")


@pytest.mark.parametrize(
    ("expression", "accepted"),
    [
        ("MIT", True),
        ("(MIT OR GPL-3.0-only) ", True),
        ("MIT AND GPL-3.0-only", False),
        ("ISC License (ISCL)", True),
        ("Apache-2.0 WITH LLVM-exception AND MIT", True),
        ("", False),
    ],
)
def test_an_expression_is_accepted_if_one_alternative_is(expression: str, accepted: bool) -> None:
    assert is_accepted(expression) is accepted


def test_an_export_names_the_pinned_versions_that_are_vulnerable(tmp_path: Path) -> None:
    record = {
        "id": "PYSEC-1",
        "summary": "reads too much",
        "affected": [{"package": {"name": "Thing"}, "versions": ["0.9", "1.0"]}],
    }
    fixed = {
        "id": "PYSEC-2",
        "affected": [{"package": {"name": "other"}, "versions": ["1.0"]}],
    }
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as export:
        for item in (record, fixed, {**record, "id": "PYSEC-3", "withdrawn": "2026-01-01"}):
            export.writestr(f"{item['id']}.json", json.dumps(item))
    assert from_export(tmp_path / "all.zip", PINS) == ["thing 1.0: PYSEC-1 reads too much"]


def test_an_index_without_advisories_is_no_clean_result() -> None:
    def fetch(address: str) -> dict[str, object]:
        raise OSError("HTTP 404")

    with pytest.raises(NoAdvisoriesError, match="HTTP 404"):
        from_index("https://index.invalid/pypi", PINS, fetch)
    with pytest.raises(NoAdvisoriesError, match="without advisories"):
        from_index("https://index.invalid/pypi", PINS, lambda _: {"info": {}})


def test_an_index_names_the_pinned_versions_that_are_vulnerable() -> None:
    def fetch(address: str) -> dict[str, object]:
        is_bad = address.endswith("/thing/1.0/json")
        return {"vulnerabilities": [{"id": "PYSEC-1", "summary": "x"}] if is_bad else []}

    assert from_index("https://index.invalid/pypi", PINS, fetch) == ["thing 1.0: PYSEC-1 x"]
