"""The DAG factory: one DAG for each study file, and one generic DAG for each runner."""

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
"""Retries of tasks whose worker dies. Retries of failing trainings are counted by the ledger."""

ROUND_TASKS = ("sample", "trial", "collect", "early_stop")
Body = Callable[[PrepareOperator], list[Any]]
"""Adds the tasks between `prepare` and `publish`; returns the last of them."""


def build_dags(folder: Path, *, only: str | None = None) -> dict[str, DAG]:
    """Builds a DAG for each study file in a folder, and the generic DAGs, by their ids.

    A file that cannot be used gets a DAG that says what is wrong; the others are not affected. A
    running study keeps its tasks when its file is changed, broken or deleted.

    Args:
        folder: Where the study files are.
        only: Build this DAG only, as a task needs no other.
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
    """The generic DAG of a runner, or a DAG that says why its operator cannot be imported.

    A runner without its libraries must not keep the DAGs of other runners from being built.
    """
    try:
        return build_generic_dag(runner)
    except ImportError as error:
        problem = f"the runner {runner} cannot be used: its operator cannot be imported ({error})"
        return build_broken_dag(generic_dags()[runner], problem)


def rehearse() -> None:
    """Builds DAGs once, so that processes forked afterwards have all imports and caches."""
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
    """A DAG in place of one that cannot be built; its only task fails and says what is wrong."""
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
    """The DAG of a study: prepare, its trials in rounds or rolling, publish, finalize.

    Args:
        study: The study.
        problem: What is wrong with the study's file now. Running studies continue; none starts.
        has_document: Whether the DAG has its documentation page, which takes half of the time.
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
    """The generic DAG of a runner: runs the complete study in its trigger config, rolling."""
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
    """Builds a DAG with the tasks that all studies have, around the tasks that `body` adds."""
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
    # Set last: a task created before would copy the params and validate them at each parsing.
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
                # One more than can run: it waits in its worker and starts at once.
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
    """Whether a task is the mapped task of a rolling study's trials."""
    return str(task.task_id).rpartition(".")[2] == "trial"


def _most_started(study: StudyConfig) -> int | None:
    """The highest number of trials whose tasks are active at a time; None for no limit.

    One trial more than can run is queued. The task of a paused trial stays deferred, so that any
    number can be needed where the scheduler may pause trials.
    """
    return None if may_pause(study.scheduler.name) else study.ceiling + 1


def _add_rolling(
    prepare: PrepareOperator, runner: str, most_started: int | None, most_trials: int
) -> list[Any]:
    """Adds the trials of a rolling study: each trial is an instance of a mapped task.

    Airflow maps one task over ``max_map_length`` items at most. Later trials have mapped tasks of
    their own, which are expanded when the first of their trials gets a slot.
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
    """Adds the task that trains the best trial of a study with folds on all data at the end."""
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
