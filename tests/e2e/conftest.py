"""A real stack for the tests in this folder, with DAGs to which studies can be added."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpo_ops.stack import Stack
from tests.e2e.airflow import QUIET, Lab

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder of our own: another pytest would close its own one to PostgreSQL's user."""
    folder = Path(tempfile.mkdtemp(prefix="hpo-e2e-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def dags(place: Path) -> Path:
    """A copy of `dags/`, beside a copy of `examples/`: what is dropped in appears in Airflow."""
    folder = place / "project"
    for name in ("dags", "examples"):
        shutil.copytree(
            PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    return folder / "dags"


@pytest.fixture(scope="session")
def stack(place: Path, dags: Path) -> Iterator[Stack]:
    """All parts, on free ports; afterwards nothing may be left running."""
    made = Stack(place / ".hpo", dags=dags, port=0, s3_port=0, extra_environment=QUIET)
    with made:
        yield made
    assert made.processes() == []


@pytest.fixture(scope="session")
def lab(stack: Stack) -> Lab:
    return Lab(stack)
