from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hpo_ops.checkpoints import Credentials, Store, open_store
from tests.s3 import BUCKET, running_s3


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Credentials]:
    with running_s3(tmp_path_factory.mktemp("s3")) as credentials:
        yield credentials


@pytest.fixture(params=["memory", "file", pytest.param("s3", marks=pytest.mark.e2e)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "s3":
        return open_store(f"s3://{BUCKET}/{tmp_path.name}", request.getfixturevalue("s3"))
    return open_store("memory:///" if request.param == "memory" else f"file://{tmp_path}/store")
