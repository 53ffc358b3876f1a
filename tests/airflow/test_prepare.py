"""What `prepare` hands on to the tasks after it."""

from __future__ import annotations

from pathlib import Path

import pytest

import hpo_ops.airflow.operators
from hpo_ops.airflow.operators import PrepareOperator
from hpo_ops.checkpoints import hash_code
from hpo_ops.client import StudyHandle


@pytest.mark.parametrize(
    ("runner", "is_installed", "packages"),
    [
        ("kubernetes", True, ["-r", "requirements.txt"]),
        ("kubernetes", False, []),
        ("local", True, []),
    ],
)
def test_code_is_packed_for_pods_and_what_it_asks_for_is_known(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    runner: str,
    is_installed: bool,
    packages: list[str],
) -> None:
    monkeypatch.setattr(hpo_ops.airflow.operators, "store_credentials", lambda: None)
    code = tmp_path / "code"
    code.mkdir()
    (code / "requirements.txt").write_text("numpy")
    study = StudyHandle(
        id=1,
        name="s",
        run_id="r",
        key="s/r",
        store=f"file://{tmp_path}/store",
        code=str(code),
        runner=runner,
    )
    prepare = PrepareOperator(task_id="prepare", config=None)
    found = prepare._with_code(study, is_installed=is_installed)
    archive = f"code/{hash_code(code)}.tar.gz"
    assert found.archive == (archive if runner == "kubernetes" else None)
    assert (tmp_path / "store" / archive).exists() is (runner == "kubernetes")
    assert found.packages == packages
    assert StudyHandle.from_dict(found.to_dict()) == found
