"""Routes of studies: tasks start and end a study, people read its progress and best trial."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query

from hpo_ops.client import Best, Progress, StudyHandle, StudyRequest, StudyVerdict, TrialSummary
from hpo_ops.gateway.http._route_dependencies import (
    PEOPLE,
    TASK_ONLY,
    TASKS,
    CurrentCaller,
    GatewayServices,
    OpenLedger,
    ReadableStudy,
    StudyOfTask,
)
from hpo_ops.gateway.queries.best_trial import find_best, find_front
from hpo_ops.gateway.queries.kept_checkpoints import list_kept
from hpo_ops.gateway.queries.study_overview import read_progress
from hpo_ops.ledger import UnknownStudyError

study_task_router = APIRouter(tags=[TASKS], dependencies=[TASK_ONLY])
study_router = APIRouter(tags=[PEOPLE])


@study_task_router.post("/studies")
def start_study(
    request: StudyRequest, caller: CurrentCaller, gateway: GatewayServices
) -> StudyHandle:
    """Records the study of a DAG run; a study that is already recorded is left unchanged."""
    caller.require_run(request.dag_id, request.run_id)
    return gateway.studies.start(request)


@study_task_router.post("/studies/{study_id}/verdict")
def verdict(record: StudyOfTask, gateway: GatewayServices) -> StudyVerdict:
    """Returns whether the study continues, waits or stops, with the reason."""
    return gateway.studies.verdict(record.id)


@study_task_router.post("/studies/{study_id}/end")
def end_study(record: StudyOfTask, result: dict[str, Any], gateway: GatewayServices) -> None:
    """Ends the study: unfinished trials are pruned, leases of resource units are released."""
    gateway.studies.end(record.id, result)


@study_router.get("/studies")
def list_studies(
    caller: CurrentCaller, ledger: OpenLedger, limit: Annotated[int, Query(ge=1, le=200)] = 20
) -> list[Progress]:
    """Lists the studies that the caller may see, newest first."""
    caller.require_person()
    visible = (record for record in ledger.recent() if caller.may_read(record))
    return [read_progress(ledger, record) for record in islice(visible, limit)]


@study_router.get("/names/{name}")
def find_study(
    name: str,
    caller: CurrentCaller,
    ledger: OpenLedger,
    run_id: str | None = None,
    dag_id: str | None = None,
) -> Progress:
    """Finds the newest study with a name, optionally of one DAG or DAG run.

    Only studies that the caller may see are searched.

    Names are not unique. The DAG, the DAG run and the task group together identify a study.
    """
    caller.require_person()
    for record in ledger.named(name, dag_id=dag_id, run_id=run_id):
        if caller.may_read(record):
            return read_progress(ledger, record)
    raise UnknownStudyError.of_name(name, run_id)


@study_router.get("/studies/{study_id}")
def progress(record: ReadableStudy, ledger: OpenLedger) -> Progress:
    """Shows the state of a study: its trials by state, its best trial, its duration."""
    return read_progress(ledger, record)


@study_router.get("/studies/{study_id}/best")
def best(record: ReadableStudy, ledger: OpenLedger) -> Best | None:
    """Shows a study's best trial with its best checkpoint; null if the study has no best trial."""
    return find_best(ledger, record)


@study_router.get("/studies/{study_id}/front")
def front(record: ReadableStudy, ledger: OpenLedger) -> list[TrialSummary]:
    """Lists the trials on the Pareto front of a study with several metrics."""
    return find_front(ledger, record)


@study_router.get("/studies/{study_id}/checkpoints/kept")
def kept_checkpoints(record: ReadableStudy, ledger: OpenLedger) -> list[tuple[int, int]]:
    """Lists the checkpoints of a study (trial and step) that must not be deleted.

    These are checkpoints of the best trials and of unfinished trials.
    """
    return list_kept(ledger, record)


@study_router.get("/studies/{study_id}/config")
def config(record: ReadableStudy) -> dict[str, Any]:
    """Shows the study's configuration, including changes since its start."""
    return record.config.to_dict()
