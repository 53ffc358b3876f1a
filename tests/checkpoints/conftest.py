from __future__ import annotations

from pathlib import Path

import pytest

from hpo_ops.checkpoints import Store, open_store
from tests.s3 import BUCKET


@pytest.fixture(params=["memory", "file", pytest.param("s3", marks=pytest.mark.e2e)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "s3":
        return open_store(f"s3://{BUCKET}/{tmp_path.name}", request.getfixturevalue("s3"))
    return open_store("memory:///" if request.param == "memory" else f"file://{tmp_path}/store")
