"""Routes of trials: tasks request their next action, people read trials and their reports."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool

from hpo_ops.client import (
    AbsorbedScores,
    NextAction,
    Retraining,
    TrialDetail,
    TrialResult,
    TrialSummary,
    Waiter,
    WakeUp,
)
from hpo_ops.gateway.http._route_dependencies import (
    PEOPLE,
    TASK_ONLY,
    TASKS,
    CurrentCaller,
    GatewayServices,
    OpenLedger,
    ReadableStudy,
    StudyOfTask,
    find_visible_study,
)
from hpo_ops.gateway.queries import trial_lists
from hpo_ops.gateway.queries.trial_detail import read_trial_detail
from hpo_ops.ledger import StudyIdentity
from hpo_ops.ledger.learning_curves import RecordedReport
from hpo_ops.ledger.trial_listing import RecordedDecision

MAX_WAIT_SECONDS = 20.0
"""The longest time for which a request for the next action may be held open."""
RECHECK_SECONDS = 1.0
"""Interval at which a request that is held open is evaluated again without a notification."""

trial_task_router = APIRouter(tags=[TASKS], dependencies=[TASK_ONLY])
trial_router = APIRouter(tags=[PEOPLE])


@trial_task_router.post("/trials/{trial}/next_action")
async def next_action(
    dag_id: str,
    run_id: str,
    trial: int,
    key: str,
    caller: CurrentCaller,
    gateway: GatewayServices,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS)] = 0.0,
    task_group: str = "",
) -> NextAction:
    """Tells a trial's task what to do next: run a segment, wait, or finish.

    The study is given by its DAG run and task group; `key` is the idempotency key of the task's
    attempt. If the trial is the next to start and no slot is free, the request is held open until
    a slot is free, for up to `wait` seconds.
    """
    caller.require_run(dag_id, run_id)
    give_up_at = time.monotonic() + wait
    identity = StudyIdentity(dag_id, run_id, task_group)
    study = await run_in_threadpool(gateway.studies.study_of_run, identity)
    while True:
        with gateway.ledger.news.expected(study.id) as news:
            answer = await run_in_threadpool(
                gateway.next_actions.next_action, study.id, trial, key
            )
            left = give_up_at - time.monotonic()
            if not answer.is_next or left <= 0:
                return replace(answer, study=study)
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), min(left, RECHECK_SECONDS))


@trial_task_router.post("/ready")
def ready(
    waiting: list[Waiter], caller: CurrentCaller, gateway: GatewayServices, ledger: OpenLedger
) -> list[WakeUp]:
    """Returns the waiting tasks that should request their next action again."""
    if not caller.is_platform:
        for study_id in {item.study_id for item in waiting}:
            find_visible_study(study_id, caller, ledger)
    return gateway.next_actions.ready(waiting)


@trial_task_router.post("/studies/{study_id}/lost")
def lost(record: StudyOfTask, numbers: list[int], gateway: GatewayServices) -> list[int]:
    """Lists the given trials that are running in the ledger although their tasks have ended."""
    return gateway.next_actions.lost(record.id, numbers)


@trial_task_router.post("/studies/{study_id}/scores")
def absorb_scores(
    record: StudyOfTask, scores: list[TrialResult], gateway: GatewayServices
) -> AbsorbedScores:
    """Compares trial results from XCom with the ledger; records results that the ledger lacks."""
    return gateway.studies.absorb(record.id, scores)


@trial_task_router.post("/studies/{study_id}/abandon")
def abandon(record: StudyOfTask, numbers: list[int], gateway: GatewayServices) -> list[int]:
    """Fails running trials whose tasks will not be retried; returns the failed trials."""
    return gateway.next_actions.abandon(record.id, numbers)


@trial_task_router.post("/studies/{study_id}/retraining")
def retrain(record: StudyOfTask, gateway: GatewayServices) -> Retraining:
    """Adds a trial that trains the best parameters on all data, after a search with folds."""
    return gateway.studies.retrain(record.id)


@trial_router.get("/studies/{study_id}/trials")
def list_trials(record: ReadableStudy, ledger: OpenLedger) -> list[TrialSummary]:
    """Lists a study's trials by number; a trial with folds has the mean values of its folds."""
    return trial_lists.list_trials(ledger, record)


@trial_router.get("/studies/{study_id}/trials/{trial}")
def show_trial(record: ReadableStudy, trial: int, ledger: OpenLedger) -> TrialDetail:
    """Shows a trial with its seed and its segments, each with its provenance."""
    return read_trial_detail(ledger, record, trial)


@trial_router.get("/studies/{study_id}/trials/{trial}/reports")
def trial_reports(record: ReadableStudy, trial: int, ledger: OpenLedger) -> list[RecordedReport]:
    """Lists a trial's reports by step; for a trial with folds, the means over its folds."""
    return trial_lists.read_learning_curve(ledger, record, trial)


@trial_router.get("/studies/{study_id}/trials/{trial}/decisions")
def trial_decisions(
    record: ReadableStudy, trial: int, ledger: OpenLedger
) -> list[RecordedDecision]:
    """Lists the decisions on a trial with their reasons, oldest first."""
    return trial_lists.list_decisions(ledger, record, trial)
