"""Builds one DAG for each study file, and one generic DAG for each runner.

A DAG has one of two flows: rounds (batches of trials sampled together, one after the other) or
rolling (each free slot is refilled at once).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from airflow.sdk import DAG, Asset, AssetAlias, Param, TaskGroup, TriggerRule
from airflow.sdk.definitions.param import ParamsDict

from hpo_ops.airflow._prepare_operator import Numbers, PrepareOperator
from hpo_ops.airflow._running_studies import RunningStudies
from hpo_ops.airflow._sensors import EarlyStopSensor, LaterTrialsSensor
from hpo_ops.airflow._study_files import list_study_files, read_study_files
from hpo_ops.airflow._study_operators import (
    CollectOperator,
    FinalizeOperator,
    PublishOperator,
    SampleOperator,
    best_asset,
)
from hpo_ops.airflow.entered_study import PREPARE
from hpo_ops.airflow.trigger_form import (
    count_mapped_tasks,
    form_of,
    generic_form,
    generic_most_trials,
    max_mapped,
)
from hpo_ops.config import (
    GENERIC_CEILING,
    Flow,
    StudyConfig,
    parse_study,
)
from hpo_ops.config.round_planning import count_rounds
from hpo_ops.config.runner_registry import find_runner, generic_dags
from hpo_ops.schedulers import may_pause

RETRIES = {"retries": 10, "retry_delay": timedelta(seconds=2)}
"""Airflow's retries of tasks whose worker dies; the ledger counts retries of failed trainings."""

ROUND_TASKS = ("sample", "trial", "collect", "early_stop")
Body = Callable[[PrepareOperator], list[Any]]
"""A function that adds the tasks between `prepare` and `publish`.

It returns the tasks that `publish` waits for.
"""


def build_dags(folder: Path, *, only: str | None = None) -> dict[str, DAG]:
    """Builds a DAG for each study file in a folder, and the generic DAGs.

    For an invalid study file a DAG is built whose only task fails and shows the problem; other
    DAGs are not affected. A running study keeps its tasks if its file is changed, becomes invalid
    or is deleted.

    Args:
        folder: The folder with the study files.
        only: Id of the only DAG to build, for a process that runs a task of this DAG; None for
            all DAGs.

    Returns:
        The DAGs by their ids.
    """
    dags: dict[str, DAG] = {}
    build = partial(build_dag, has_document=only is None)
    running = RunningStudies().studies()
    for name, (study, problem) in read_study_files(
        list_study_files(folder, only), running
    ).items():
        if only in (None, name):
            dags[name] = (
                build_broken_dag(name, problem) if study is None else build(study, problem=problem)
            )
    for name, study in running.items():
        if name not in dags and name not in generic_dags().values() and only in (None, name):
            dags[name] = build(study, problem=f"the study file of {name} was deleted")
    for runner, name in generic_dags().items():
        if only in (None, name):
            dags[name] = _generic_or_broken_dag(runner)
    return dags


def _generic_or_broken_dag(runner: str) -> DAG:
    """Builds a runner's generic DAG, or a placeholder if the runner's operator cannot be imported.

    So other runners' DAGs are built even if the libraries of one runner are not installed.
    """
    try:
        return build_generic_dag(runner)
    except ImportError as error:
        problem = f"the runner {runner} cannot be used: its operator cannot be imported ({error})"
        return build_broken_dag(generic_dags()[runner], problem)


def rehearse() -> None:
    """Builds sample DAGs, so that processes forked later inherit all imports and caches."""
    study = {
        "name": "rehearsal",
        "code": ".",
        "command": "true",
        "metric": {"name": "value", "direction": "maximize"},
        "space": {"x": {"float": [0, 1]}},
    }
    for flow in Flow:
        build_dag(parse_study({**study, "flow": flow.value}, source="rehearsal"))
    for runner in generic_dags():
        _generic_or_broken_dag(runner)


def build_broken_dag(name: str, problem: str | None) -> DAG:
    """Builds a placeholder for an invalid DAG; its only task fails and shows the problem."""
    with DAG(
        dag_id=re.sub(r"[^A-Za-z0-9_.-]", "_", name),
        schedule=None,
        description="This DAG cannot be used; its documentation says why.",
        tags=["hpo", "broken"],
        doc_md=f"**This DAG cannot be used:**\n\n```\n{problem}\n```\n",
    ) as dag:
        PrepareOperator(task_id=PREPARE, config=None, problem=problem)
    return dag


def build_dag(study: StudyConfig, *, problem: str | None = None, has_document: bool = True) -> DAG:
    """Builds the DAG of a study: `prepare`, the tasks of its trials, `publish` and `finalize`.

    Args:
        study: The study's configuration.
        problem: Why the study file cannot be used at present: a running study continues, but no
            new run can start. None if the file is valid.
        has_document: Whether to build the DAG's documentation page, which takes half of the time.
    """
    is_rolling = study.flow is Flow.ROLLING

    def body(prepare: PrepareOperator) -> list[Any]:
        ends = (
            _add_rolling(prepare, study.runner, _most_started(study), study.mapped_trials)
            if is_rolling
            else _add_rounds(prepare, study)
        )
        return _add_retraining(study, ends) if study.is_retrained else ends

    return _frame(
        study.name,
        body,
        config=study.to_dict(),
        runner=study.runner,
        most_trials=count_mapped_tasks(study) * max_mapped(),
        problem=problem,
        outlet=best_asset(study.name),
        params=form_of(study),
        # A failed trial does not fail the study; a failed round does.
        publish_rule=TriggerRule.ALL_DONE if is_rolling else TriggerRule.NONE_FAILED,
        description=study.description or None,
        tags=["hpo", study.flow.value, study.scheduler.name, study.sampler.name],
        doc_md=_document(study, problem) if has_document else None,
        max_active_tasks=study.ceiling + 16,
    )


def build_generic_dag(runner: str) -> DAG:
    """Builds a runner's generic DAG, which runs a rolling study given in its trigger config."""
    dag_id = generic_dags()[runner]
    return _frame(
        dag_id,
        lambda prepare: _add_rolling(prepare, runner, None, generic_most_trials()),
        config=None,
        runner=runner,
        most_trials=generic_most_trials(),
        outlet=AssetAlias("hpo/best"),
        params=generic_form(),
        publish_rule=TriggerRule.ALL_DONE,
        description="Runs the study that its trigger config holds.",
        tags=["hpo", Flow.ROLLING.value],
        doc_md=_GENERIC_DOCUMENT.format(dag_id=dag_id),
        max_active_tasks=GENERIC_CEILING + 16,
    )


def _frame(
    dag_id: str,
    body: Body,
    *,
    config: dict[str, Any] | None,
    runner: str,
    most_trials: int,
    problem: str | None = None,
    outlet: Asset | AssetAlias,
    params: dict[str, Param],
    publish_rule: TriggerRule,
    **arguments: Any,
) -> DAG:
    """Builds a DAG with the tasks `prepare`, `publish` and `finalize`, and those of `body`.

    The function `body` adds the tasks between `prepare` and `publish`, such as the trials.
    """
    with DAG(
        dag_id=dag_id,
        schedule=None,
        catchup=False,
        default_args=RETRIES,
        **arguments,
    ) as dag:
        prepare = PrepareOperator(
            task_id=PREPARE,
            config=config,
            problem=problem,
            runner=runner,
            most_trials=most_trials,
        )
        ends = body(prepare)
        publish = PublishOperator(
            task_id="publish",
            outlet=outlet,
            trial_tasks=[task.task_id for task in ends if _is_trial(task)],
            trigger_rule=publish_rule,
        )
        finalize = FinalizeOperator(task_id="finalize", result=publish.output)
        [prepare, *ends] >> publish >> finalize.as_teardown()
    # Set last: a task that is created later would copy and validate the params at each parsing.
    dag.params = ParamsDict(params)
    return dag


def _add_rounds(prepare: PrepareOperator, study: StudyConfig) -> list[Any]:
    count = count_rounds(study)
    previous: Any = prepare
    for number in range(count):
        start, end = _add_round(study, number, count, prepare.study)
        previous >> start
        previous = end
    return [previous]


def _add_round(study: StudyConfig, number: int, count: int, handle: Any) -> tuple[Any, Any]:
    width = len(str(max(count - 1, 10)))
    name = f"round_{number:0{width}}"
    later = [
        f"round_{later:0{width}}.{task}"
        for later in range(number + 1, count)
        for task in ROUND_TASKS
    ]
    with TaskGroup(name, tooltip=f"round {number + 1} of at most {count}"):
        sample = SampleOperator(
            task_id="sample", study=handle, round_number=number, rounds_left=count - number
        )
        trial = (
            find_runner(study.runner)
            .operator()
            .partial(
                task_id="trial",
                folds=study.fold_count,
                map_index_template="{{ task.label }}",
                # One trial more than can run: it waits in its worker, so that it starts at once.
                max_active_tis_per_dagrun=study.ceiling + 1,
            )
            .expand_kwargs(sample.output)
        )
        collect = CollectOperator(
            task_id="collect",
            study=handle,
            round_number=number,
            trial_task_id=f"{name}.trial",
            trigger_rule=TriggerRule.ALL_DONE,
        )
        early_stop = EarlyStopSensor(
            task_id="early_stop",
            study=handle,
            later_tasks=later,
        )
        sample >> trial >> collect >> early_stop
    return sample, early_stop


def _is_trial(task: Any) -> bool:
    """Checks whether a task is a mapped trial task of a rolling study."""
    return str(task.task_id).rpartition(".")[2] == "trial"


def _most_started(study: StudyConfig) -> int | None:
    """Returns how many trial tasks of a study may be active at a time, or None for no limit.

    The limit is one more than the trials that can run, so that the next trial is already queued.
    There is no limit if the scheduler may pause trials, because the task of a paused trial stays
    active (deferred).
    """
    return None if may_pause(study.scheduler.name) else study.ceiling + 1


def _add_rolling(
    prepare: PrepareOperator, runner: str, most_started: int | None, most_trials: int
) -> list[Any]:
    """Adds the tasks of a rolling study's trials: each trial is an instance of a mapped task.

    Airflow maps one task over at most ``max_map_length`` items. Further mapped tasks are added for
    later trials; each is expanded when the first of its trials gets a slot.

    Args:
        prepare: The task `prepare`.
        runner: The runner whose operator runs the trials.
        most_started: Maximum number of active trial tasks; None for no limit.
        most_trials: Number of trials for which tasks are added.

    Returns:
        The mapped trial tasks and the early-stop sensor.
    """

    def add_trials(numbers: Any) -> Any:
        return (
            find_runner(runner)
            .operator()
            .partial(
                task_id="trial",
                map_index_template="{{ task.label }}",
                max_active_tis_per_dagrun=most_started,
            )
            .expand(number=numbers)
        )

    size = max_mapped()
    trials = {0: add_trials(prepare.numbers)}
    previous: Any = prepare
    for first in range(size, most_trials, size):
        with TaskGroup(f"trials_from_{first}", tooltip=f"trials {first} to {first + size - 1}"):
            wait = LaterTrialsSensor(
                task_id="wait", study=prepare.study, first_trial=first, most=size
            )
            trials[first] = add_trials(Numbers(wait))
        previous >> wait
        previous = wait
    early_stop = EarlyStopSensor(
        task_id="early_stop",
        study=prepare.study,
        trial_tasks={first: task.task_id for first, task in trials.items()},
    )
    prepare >> [trials[0], early_stop]
    return [*trials.values(), early_stop]


def _add_retraining(study: StudyConfig, ends: list[Any]) -> list[Any]:
    """Adds the task that trains the best configuration once more, on the data of all folds.

    Args:
        study: The study's configuration.
        ends: The tasks after which the new task runs.

    Returns:
        The tasks in `ends` and the new task.
    """
    retrain = find_runner(study.runner).operator()(
        task_id="retrain",
        is_retraining=True,
        # A failed trial does not fail the study; a failed round does.
        trigger_rule=(
            TriggerRule.ALL_DONE_MIN_ONE_SUCCESS
            if study.flow is Flow.ROLLING
            else TriggerRule.NONE_FAILED
        ),
    )
    ends >> retrain
    return [*ends, retrain]


def _document(study: StudyConfig, problem: str | None) -> str:
    text = yaml.safe_dump(study.to_dict(), sort_keys=False)
    warning = f"**The study file cannot be used now:** {problem}\n\n" if problem else ""
    return f"{warning}{study.description}\n\n```yaml\n{text}```\n"


_GENERIC_DOCUMENT = """Runs the study in its trigger config, rolling:

```
airflow dags trigger {dag_id} --conf '{{"study": {{"name": "quick", "code": "...", ...}}}}'
```
"""
