"""Triggers the repeats of a study: DAG runs of the same study with other seeds.

The repeats form an experiment. The first DAG run of an experiment triggers all others.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun

from hpo_ops.airflow.trigger_form import REPEAT
from hpo_ops.client.experiment_messages import repeat_run
from hpo_ops.config import StudyConfig

if TYPE_CHECKING:
    from airflow.sdk import Context

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RepeatOf:
    """The position of a DAG run in its experiment.

    Attributes:
        experiment: Run id of the experiment's first run; None if the study is not repeated.
        number: Number of the repeat; the first run has the number 0.
    """

    experiment: str | None = None
    number: int = 0


def read_repeat(context: Context, study: StudyConfig) -> RepeatOf:
    """Reads from the trigger config which repeat of an experiment the current DAG run is.

    Raises:
        AirflowFailException: The trigger config has the key ``repeat``, which only the first run
            of an experiment may set, but its value is invalid or does not match the run's id.
    """
    given = _conf(context).get(REPEAT)
    if given is None:
        return RepeatOf(context["run_id"]) if study.repeats > 1 else RepeatOf()
    try:
        repeat = RepeatOf(str(given["of"]), int(given["number"]))
    except (KeyError, TypeError, ValueError) as error:
        raise AirflowFailException(
            f"{REPEAT} is {given!r}, but only the first run of an experiment gives it"
        ) from error
    if context["run_id"] != repeat_run(repeat.experiment or "", repeat.number):
        raise AirflowFailException(
            f"{REPEAT} is {given!r}, but this run is {context['run_id']}: "
            "trigger the study without it"
        )
    return repeat


def start_repeats(context: Context, repeat: RepeatOf, count: int) -> None:
    """Triggers the other runs of an experiment if the current run is the first.

    A second call does nothing, since the runs exist already.

    Args:
        context: The context of the calling task.
        repeat: The position of the current run in its experiment.
        count: Number of runs of the experiment, including the first.

    Raises:
        RuntimeError: Airflow did not start one of the runs.
    """
    if repeat.experiment is None or repeat.number > 0:
        return
    dag_id, conf = context["dag"].dag_id, _conf(context)
    for number in range(1, count):
        answer = task_runner.SUPERVISOR_COMMS.send(
            TriggerDagRun(
                dag_id=dag_id,
                run_id=repeat_run(repeat.experiment, number),
                conf={**conf, REPEAT: {"of": repeat.experiment, "number": number}},
            )
        )
        is_there = (
            isinstance(answer, ErrorResponse) and answer.error is ErrorType.DAGRUN_ALREADY_EXISTS
        )
        if isinstance(answer, ErrorResponse) and not is_there:
            raise RuntimeError(f"repeat {number} could not be triggered: {answer.detail}")
    logger.info("%d more repeats of the study were triggered", count - 1)


def _conf(context: Context) -> dict[str, Any]:
    run = context["dag_run"]
    return dict((run.conf if run else None) or {})
