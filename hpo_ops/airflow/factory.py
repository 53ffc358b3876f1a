"""The DAG factory: one DAG a study file."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from airflow.sdk import DAG, Asset, TaskGroup, TriggerRule

from hpo_ops.airflow.operators import (
    CollectOperator,
    FinalizeOperator,
    PrepareOperator,
    PublishOperator,
    SampleOperator,
)
from hpo_ops.airflow.sensors import EarlyStopSensor
from hpo_ops.airflow.trial import TrialOperator
from hpo_ops.config import StudyConfig, load_study

RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=2)}
"""For workers that die; retries of failing training code are the study's and in the ledger."""

ROUND_TASKS = ("sample", "trial", "collect", "early_stop")


def build_dags(folder: Path) -> dict[str, DAG]:
    """A DAG for each study file in a folder, by its name.

    Raises:
        StudyError: A file cannot be used.
    """
    dags: dict[str, DAG] = {}
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        study = load_study(path)
        dags[study.name] = build_dag(study)
    return dags


def build_dag(study: StudyConfig) -> DAG:
    """The DAG of a study: prepare, rounds, publish, finalize."""
    with DAG(
        dag_id=study.name,
        description=study.description or None,
        schedule=None,
        catchup=False,
        tags=["hpo", study.scheduler.name, study.sampler.name],
        doc_md=_document(study),
        default_args=RETRIES,
        max_active_tasks=study.parallelism + 16,
    ) as dag:
        prepare = PrepareOperator(task_id="prepare", config=study.to_dict())
        count = count_rounds(study)
        ends = [_add_round(study, number, count, prepare.output) for number in range(count)]
        publish = PublishOperator(
            task_id="publish",
            study=prepare.output,
            asset=Asset(name=f"hpo/{study.name}/best", uri=f"hpo://{study.name}/best"),
            trigger_rule=TriggerRule.NONE_FAILED,
        )
        finalize = FinalizeOperator(
            task_id="finalize", study=prepare.output, result=publish.output
        )
        previous: Any = prepare
        for start, end in ends:
            previous >> start
            previous = end
        previous >> publish >> finalize.as_teardown()
    return dag


def count_rounds(study: StudyConfig) -> int:
    """Most rounds that a study can need; those that it does not need are skipped.

    With decisions at the barrier only, a trial comes back for each rung that it passes.
    """
    batches = math.ceil(study.trials / study.parallelism)
    rungs = getattr(study.create_scheduler(), "rungs", ())
    if not study.reproducible or not rungs:
        return batches
    return math.ceil(study.trials * len(rungs) / study.parallelism) + len(rungs)


def _add_round(study: StudyConfig, number: int, count: int, handle: Any) -> tuple[Any, Any]:
    width = len(str(max(count - 1, 10)))
    name = f"round_{number:0{width}}"
    later = [
        f"round_{later:0{width}}.{task}"
        for later in range(number + 1, count)
        for task in ROUND_TASKS
    ]
    with TaskGroup(name, tooltip=f"round {number + 1} of at most {count}"):
        sample = SampleOperator(task_id="sample", study=handle, round_number=number)
        trial = TrialOperator.partial(
            task_id="trial",
            study=handle,
            map_index_template="{{ task.label }}",
            max_active_tis_per_dagrun=study.parallelism,
        ).expand_kwargs(sample.output)
        collect = CollectOperator(
            task_id="collect",
            study=handle,
            round_number=number,
            trial_task_id=f"{name}.trial",
            trigger_rule=TriggerRule.ALL_DONE,
        )
        early_stop = EarlyStopSensor(task_id="early_stop", study=handle, later_tasks=later)
        sample >> trial >> collect >> early_stop
    return sample, early_stop


def _document(study: StudyConfig) -> str:
    text = yaml.safe_dump(study.to_dict(), sort_keys=False)
    return f"{study.description}\n\n```yaml\n{text}```\n"
