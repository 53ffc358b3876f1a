"""Repeats of a study: the first run of an experiment triggers the other runs of its DAG."""

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
    """The experiment that a run belongs to, and its number there.

    Attributes:
        experiment: Id of the first run; None where there are no repeats.
        number: Number of the repeat; the first run is 0.
    """

    experiment: str | None = None
    number: int = 0


def read_repeat(context: Context, study: StudyConfig) -> RepeatOf:
    """The repeat that this run is, from its trigger config.

    Raises:
        AirflowFailException: A person gave the key, which only the first run may set.
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
    """Triggers the other runs of an experiment, if this is the first; safe to repeat."""
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
