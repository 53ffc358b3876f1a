"""What `prepare` hands on to the tasks after it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG

import hpo_ops.airflow.operators
from hpo_ops.airflow.operators import PrepareOperator
from hpo_ops.airflow.trial import TrialOperator
from hpo_ops.checkpoints import hash_code
from hpo_ops.config import parse_study
from tests.studies import study_data


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
    store = f"file://{tmp_path}/store"
    config = parse_study(
        study_data(
            code=str(code), runner=runner, install=is_installed, checkpoints={"store": store}
        ),
        source="test",
    )
    prepare = PrepareOperator(task_id="prepare", config=None)
    found, asked_for = prepare._pack_code(config)
    archive = f"code/{hash_code(code)}.tar.gz"
    assert found == (archive if runner == "kubernetes" else None)
    assert (tmp_path / "store" / archive).exists() is (runner == "kubernetes")
    assert asked_for == packages


def test_an_instance_knows_its_number_without_asking_for_the_list() -> None:
    with DAG("d", schedule=None):
        prepare = PrepareOperator(task_id="prepare", config=None)
        trial = TrialOperator.partial(task_id="trial").expand(number=prepare.numbers)
    assert trial.upstream_task_ids == {"prepare"}
    context = {"ti": SimpleNamespace(map_index=7, _upstream_map_indexes={})}
    assert trial._expand_mapped_kwargs(context)[0] == {"number": 7}  # type: ignore[arg-type]
