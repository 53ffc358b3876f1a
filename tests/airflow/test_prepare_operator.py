"""What `prepare` hands on to the tasks after it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG

import hpo_ops.airflow._prepare_operator
from hpo_ops.airflow._prepare_operator import PrepareOperator
from hpo_ops.checkpoints import hash_code
from hpo_ops.config import StudyError, parse_study
from hpo_ops.runners.local.operator import TrialOperator
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
    monkeypatch.setattr(hpo_ops.airflow._prepare_operator, "store_credentials", lambda: None)
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


@pytest.mark.parametrize(
    "store",
    ["file:///etc", "s3://hpo-evil", "s3://hpo/../victim", "s3://hpo/%2e%2e/victim"],
)
def test_a_study_with_a_store_that_is_not_allowed_is_refused(
    monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    monkeypatch.setenv("HPO_CHECKPOINT_STORE", "s3://hpo")
    prepare = PrepareOperator(task_id="prepare", config=study_data(checkpoints={"store": store}))
    context = {"dag_run": None, "params": {}, "run_id": "r"}

    with pytest.raises(StudyError, match=r"checkpoints\.store is .* that the operator allows"):
        prepare._study(context)  # type: ignore[arg-type]  # what it looks at


def test_the_platform_s_store_and_those_listed_may_be_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HPO_CHECKPOINT_STORE", "s3://hpo")
    monkeypatch.setenv("HPO_ALLOWED_STORES", "s3://team/hpo")
    context = {"dag_run": None, "params": {}, "run_id": "r"}
    for given, used in {None: "s3://hpo", "s3://hpo/a": "s3://hpo/a"}.items():
        config = study_data(checkpoints={"store": given})
        prepare = PrepareOperator(task_id="prepare", config=config)

        study = prepare._study(context)  # type: ignore[arg-type]  # what it looks at

        assert study.checkpoints.store == used
