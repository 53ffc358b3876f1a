"""A real stack for the tests in this folder, with DAGs to which studies can be added."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpo_ops.stack import Stack
from tests.e2e.airflow import Lab

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `dags/`, beside a copy of `examples/`: what is dropped in appears in Airflow."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("dags", "examples"):
        shutil.copytree(
            PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    return folder / "dags"


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, dags: Path) -> Iterator[Stack]:
    """All parts, on free ports; afterwards nothing may be left running."""
    made = Stack(tmp_path_factory.mktemp("stack") / ".hpo", dags=dags, port=0, s3_port=0)
    made.start()
    yield made
    made.stop()
    assert made.processes() == []


@pytest.fixture(scope="session")
def lab(stack: Stack) -> Lab:
    return Lab(stack)
