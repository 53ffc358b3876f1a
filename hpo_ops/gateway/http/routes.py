"""The gateway's routes: for the tasks of a DAG run, for agents, for people."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from hpo_ops.client import (
    Best,
    Group,
    NextAction,
    Progress,
    ReportPage,
    Retraining,
    SegmentReceipt,
    SegmentSummary,
    StudyHandle,
    StudyRequest,
    TrialDetail,
    TrialResult,
    TrialSummary,
    Verdict,
    Waiting,
)
from hpo_ops.gateway.http.api_description import describe
from hpo_ops.gateway.http.authentication import Caller
from hpo_ops.gateway.queries import recorded_study, study_queries
from hpo_ops.gateway.queries.trial_detail import trial_detail
from hpo_ops.gateway.services.studies import Studies
from hpo_ops.ledger import StudyIdentity, StudyRecord, UnknownStudyError
from hpo_ops.protocol import Checkpoint, Control, CurveForecast, Provenance, Report, SegmentResult

MAX_REPORTS = 10_000
MAX_PROVENANCE = 100_000
MAX_WAIT = 20.0
LOOK_SECONDS = 1.0
"""A trial that waits is looked at this often, whether there is news of its study or not."""


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller  # found by the guard, before the body was read
    return caller


def _studies(request: Request) -> Studies:
    studies: Studies = request.app.state.studies
    return studies


Known = Annotated[Caller, Depends(_caller)]
Service = Annotated[Studies, Depends(_studies)]

# -- tasks -----------------------------------------------------------------------------------


def _task(caller: Known) -> None:
    caller.require_task()


Task = Depends(_task)
tasks = APIRouter(tags=["tasks"], dependencies=[Task])


def _own(study_id: int, caller: Known, studies: Service) -> StudyRecord:
    """The study of a task: that of its own DAG run, where its token is for one."""
    caller.require_task()
    return _visible(study_id, caller, studies)


def _visible(study_id: int, caller: Caller, studies: Studies) -> StudyRecord:
    """A study that the caller may see; one that they may not see might as well not exist."""
    record = studies.ledger.get(study_id)
    if not caller.may_read(record):
        raise UnknownStudyError.of_id(study_id)
    return record


Own = Annotated[StudyRecord, Depends(_own)]


@tasks.post("/studies")
def start_study(request: StudyRequest, caller: Known, studies: Service) -> StudyHandle:
    """Enters a study for a DAG run."""
    caller.require_run(request.dag_id, request.run_id)
    return studies.start(request)


@tasks.post("/studies/{study_id}/rounds/{number}")
def sample(record: Own, number: int, studies: Service, rounds_left: int) -> Group:
    """The trials of a round."""
    return studies.sample(record.id, number, rounds_left)


@tasks.post("/studies/{study_id}/rounds/{number}/scores")
def collect(record: Own, number: int, scores: list[TrialResult], studies: Service) -> Group:
    """Takes in the scores of a round."""
    return studies.collect(record.id, number, scores)


@tasks.post("/trials/{trial}/turn")
async def turn(
    dag_id: str,
    run_id: str,
    trial: int,
    key: str,
    caller: Known,
    studies: Service,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT)] = 0.0,
    task_group: str = "",
) -> NextAction:
    """What a trial's task is to do now. The trial is named by its study's identity and its number.

    The answer to the next trial in line may take as long as it says it can wait.
    """
    caller.require_run(dag_id, run_id)
    give_up_at = time.monotonic() + wait
    identity = StudyIdentity(dag_id, run_id, task_group)
    study = await run_in_threadpool(studies.study_of_run, identity)
    while True:
        with studies.ledger.news.expected(study.id) as news:
            answer = await run_in_threadpool(studies.turn, study.id, trial, key)
            left = give_up_at - time.monotonic()
            if not answer.is_next or left <= 0:
                return replace(answer, study=study)
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), min(left, LOOK_SECONDS))


@tasks.post("/studies/{study_id}/abandon")
def abandon(record: Own, numbers: list[int], studies: Service) -> list[int]:
    """Fails trials whose tasks have ended for good, and returns their numbers."""
    return studies.abandon(record.id, numbers)


@tasks.post("/ready")
def ready(waiting: list[Waiting], caller: Known, studies: Service) -> list[Waiting]:
    """Those of the waiting whose turn may have come."""
    if not caller.is_platform:
        for study_id in {item.study_id for item in waiting}:
            _visible(study_id, caller, studies)
    return studies.ready(waiting)


@tasks.post("/alive")
def keep_alive(segments: list[str], caller: Known, studies: Service) -> list[str]:
    """Renews the leases of segments whose pods are there, and returns those not wanted."""
    for segment in segments:
        _check_segment(segment, caller, studies)
    return studies.keep_alive(segments)


def _check_segment(segment: str, caller: Caller, studies: Studies) -> None:
    """Refuses a task whose token is for the DAG run of another study than the segment's."""
    if caller.is_task and not caller.is_platform:
        study_id, _ = studies.ledger.study_of_segment(segment)
        if not caller.may_read(studies.ledger.get(study_id)):
            raise UnknownStudyError.of_segment(segment)


@tasks.post("/studies/{study_id}/verdict")
def verdict(record: Own, studies: Service) -> Verdict:
    """Whether the study goes on."""
    return studies.verdict(record.id)


@tasks.post("/studies/{study_id}/retraining")
def retrain(record: Own, studies: Service) -> Retraining:
    """The trial that trains the best one on all data."""
    return studies.retrain(record.id)


@tasks.post("/studies/{study_id}/end")
def end_study(record: Own, result: dict[str, Any], studies: Service) -> None:
    """Closes the study."""
    studies.end(record.id, result)


# -- agents ----------------------------------------------------------------------------------


def _agent(segment: str, caller: Known, studies: Service) -> None:
    caller.require_segment(segment)
    _check_segment(segment, caller, studies)


Agent = Depends(_agent)
agents = APIRouter(prefix="/segments/{segment}", tags=["agents"], dependencies=[Agent])


@agents.post("/reports")
def report(segment: str, reports: list[Report], studies: Service) -> Control:
    """Takes reports in and says what the trial is to do."""
    _require_few(reports)
    return studies.report(segment, reports)


def _require_few(reports: list[Report]) -> None:
    if len(reports) > MAX_REPORTS:
        raise HTTPException(413, f"{len(reports)} reports at once, at most {MAX_REPORTS}")


@agents.get("/curve")
def curve(segment: str, studies: Service) -> list[tuple[int, float]]:
    """What the trial has reported so far, for its forecasts."""
    return studies.curve(segment)


@agents.post("/forecasts")
def forecast(segment: str, forecast: CurveForecast, studies: Service) -> None:
    """Takes in a forecast of the trial's learning curve."""
    studies.forecast(segment, forecast)


@agents.post("/checkpoints")
def checkpoint(segment: str, checkpoint: Checkpoint, studies: Service) -> None:
    """Takes in that a checkpoint is whole in the store."""
    studies.checkpoint(segment, checkpoint)


@agents.post("/result")
def finish(
    segment: str,
    result: Annotated[SegmentResult, Body()],
    caller: Known,
    studies: Service,
    reports: Annotated[list[Report] | None, Body()] = None,
    provenance: Annotated[Provenance | None, Body()] = None,
) -> SegmentReceipt:
    """Takes in how the segment ended, with its last reports, and returns what counts."""
    _require_few(reports or [])
    provenance = provenance or Provenance()
    if len(provenance.to_json()) > MAX_PROVENANCE:
        raise HTTPException(413, f"provenance has more than {MAX_PROVENANCE} characters")
    return studies.finish(
        segment, result, reports or [], provenance, is_agent=caller.segment is not None
    )


# -- people ----------------------------------------------------------------------------------


def _readable(study_id: int, caller: Known, studies: Service) -> StudyRecord:
    caller.require_person()
    return _visible(study_id, caller, studies)


def _editable(record: Annotated[StudyRecord, Depends(_readable)], caller: Known) -> StudyRecord:
    caller.require_edit(record)
    return record


Readable = Annotated[StudyRecord, Depends(_readable)]
Editable = Annotated[StudyRecord, Depends(_editable)]
people = APIRouter(tags=["people"])


@people.get("/openapi.json")
def openapi(request: Request, caller: Known) -> dict[str, Any]:
    """This API as OpenAPI."""
    caller.require_person()
    description: dict[str, Any] = request.app.openapi()
    return description


@people.get("/docs", response_class=HTMLResponse)
def docs(request: Request, caller: Known) -> str:
    """This API as a page."""
    caller.require_person()
    return describe(request.app.openapi())


@people.get("/studies")
def list_studies(
    caller: Known, studies: Service, limit: Annotated[int, Query(ge=1, le=200)] = 20
) -> list[Progress]:
    """The newest studies that the caller may see, newest first."""
    caller.require_person()
    mine = (record for record in studies.ledger.recent() if caller.may_read(record))
    records = list(islice(mine, limit))
    return [study_queries.progress(studies.ledger, record) for record in records]


@people.get("/names/{name}")
def find_study(
    name: str,
    caller: Known,
    studies: Service,
    run_id: str | None = None,
    dag_id: str | None = None,
) -> Progress:
    """The newest study of a name that the caller may see, of a DAG or a DAG run if given."""
    caller.require_person()
    for record in studies.ledger.named(name, dag_id=dag_id, run_id=run_id):
        if caller.may_read(record):
            return study_queries.progress(studies.ledger, record)
    raise UnknownStudyError.of_name(name, run_id)


@people.get("/studies/{study_id}")
def progress(record: Readable, studies: Service) -> Progress:
    """How a study stands."""
    return study_queries.progress(studies.ledger, record)


@people.get("/studies/{study_id}/best")
def best(record: Readable, studies: Service) -> Best | None:
    """The best trial and its best checkpoint."""
    return study_queries.best(studies.ledger, record)


@people.get("/studies/{study_id}/front")
def front(record: Readable, studies: Service) -> list[TrialSummary]:
    """The Pareto front of a study with several metrics."""
    return study_queries.front(studies.ledger, record)


@people.get("/studies/{study_id}/checkpoints/kept")
def kept_checkpoints(record: Readable, studies: Service) -> list[tuple[int, int]]:
    """The checkpoints (trial, step) that stay: of the best trials, and of those that go on."""
    return study_queries.kept_checkpoints(studies.ledger, record)


@people.get("/studies/{study_id}/trials")
def trials(record: Readable, studies: Service) -> list[TrialSummary]:
    """The study's trials."""
    return study_queries.trial_summaries(studies.ledger, record)


@people.get("/studies/{study_id}/trials/{trial}")
def trial(record: Readable, trial: int, studies: Service) -> TrialDetail:
    """A trial with its seed, its segments and what they were trained with."""
    return trial_detail(studies.ledger, record, trial)


@people.get("/studies/{study_id}/trials/{trial}/reports")
def reports(record: Readable, trial: int, studies: Service) -> list[dict[str, Any]]:
    """The learning curve of a trial."""
    return study_queries.curve(studies.ledger, record, trial)


@people.get("/studies/{study_id}/trials/{trial}/decisions")
def decisions(record: Readable, trial: int, studies: Service) -> list[dict[str, Any]]:
    """The decisions on a trial, with their reasons."""
    return study_queries.decisions_of(studies.ledger, record, trial)


@people.get("/studies/{study_id}/events")
def events(
    record: Readable,
    studies: Service,
    after: int = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> list[dict[str, Any]]:
    """What happened in a study, oldest first."""
    return study_queries.happened(studies.ledger, record, after=after, limit=limit)


@people.get("/studies/{study_id}/reports")
def all_reports(
    record: Readable,
    studies: Service,
    after: int = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_REPORTS)] = MAX_REPORTS,
) -> ReportPage:
    """The reports of all trials after an id, in the order in which they came."""
    return recorded_study.reports_after(studies.ledger, record, after=after, limit=limit)


@people.get("/studies/{study_id}/segments")
def all_segments(
    record: Readable,
    studies: Service,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_REPORTS)] = MAX_REPORTS,
) -> list[SegmentSummary]:
    """The segments of all trials, oldest first."""
    return recorded_study.segments_from(studies.ledger, record, offset=offset, limit=limit)


@people.get("/studies/{study_id}/config")
def config(record: Readable) -> dict[str, Any]:
    """The study as it is in force now."""
    return record.config.to_dict()


@people.post("/studies/{study_id}/stop")
def stop(record: Editable, caller: Known, studies: Service, reason: str = "") -> None:
    """Asks a study to end: what runs saves and leaves, the best is published."""
    studies.stop(record.id, reason or f"stopped by {caller.name}")


@people.post("/studies/{study_id}/pause")
def pause(record: Editable, caller: Known, studies: Service, reason: str = "") -> None:
    """Holds a study: what runs saves and leaves, nothing new starts."""
    studies.pause(record.id, reason or f"paused by {caller.name}")


@people.post("/studies/{study_id}/resume")
def resume(record: Editable, studies: Service) -> None:
    """Lets a paused study go on."""
    studies.resume(record.id)


@people.post("/studies/{study_id}/config")
def change(record: Editable, changes: dict[str, Any], studies: Service) -> dict[str, Any]:
    """Changes a running study by dotted keys, and returns what is in force now."""
    return studies.change(record.id, changes)
