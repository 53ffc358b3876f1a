"""FastAPI dependencies: the caller, the services, and the study that the caller may access."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Request

from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http._caller_rights import Caller
from hpo_ops.ledger import Ledger, StudyRecord, UnknownStudyError
from hpo_ops.protocol import VERSION_HEADER, check_version

TASKS = "tasks"
"""OpenAPI tag of routes for the tasks of a DAG run."""
AGENTS = "agents"
"""OpenAPI tag of routes for the agent of a segment."""
PEOPLE = "people"
"""OpenAPI tag of routes for the CLI and the UI."""


async def _current_caller(request: Request) -> Caller:
    caller: Caller = request.state.caller  # set by the guard, before the body was read
    return caller


async def _gateway_services(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


CurrentCaller = Annotated[Caller, Depends(_current_caller)]
GatewayServices = Annotated[Gateway, Depends(_gateway_services)]


async def _ledger(gateway: GatewayServices) -> Ledger:
    return gateway.ledger


OpenLedger = Annotated[Ledger, Depends(_ledger)]

# -- rights on studies -----------------------------------------------------------------------


def find_visible_study(study_id: int, caller: Caller, ledger: Ledger) -> StudyRecord:
    """Returns a study that the caller may see.

    Raises:
        UnknownStudyError: The study does not exist, or the caller may not see it. The message is
            the same in both cases, so that callers do not learn which studies exist.
    """
    record = ledger.get(study_id)
    if not caller.may_read(record):
        raise UnknownStudyError.of_id(study_id)
    return record


def _study_of_task(study_id: int, caller: CurrentCaller, ledger: OpenLedger) -> StudyRecord:
    caller.require_task()
    return find_visible_study(study_id, caller, ledger)


def _readable_study(study_id: int, caller: CurrentCaller, ledger: OpenLedger) -> StudyRecord:
    caller.require_person()
    return find_visible_study(study_id, caller, ledger)


ReadableStudy = Annotated[StudyRecord, Depends(_readable_study)]
"""The study in the path; refuses callers that may not see the study."""


def _editable_study(record: ReadableStudy, caller: CurrentCaller) -> StudyRecord:
    caller.require_edit(record)
    return record


EditableStudy = Annotated[StudyRecord, Depends(_editable_study)]
"""The study in the path; refuses callers that may not change the study."""
StudyOfTask = Annotated[StudyRecord, Depends(_study_of_task)]
"""The study in the path; refuses callers other than tasks of the study's DAG run."""

# -- rights of tasks and agents --------------------------------------------------------------


async def _require_task(caller: CurrentCaller) -> None:
    caller.require_task()


def check_segment_access(segment: str, caller: Caller, ledger: Ledger) -> None:
    """Refuses a task whose DAG run is not the DAG run of the segment's study.

    Raises:
        UnknownStudyError: The segment does not exist, or belongs to another DAG run.
    """
    if caller.is_task and not caller.is_platform:
        study_id, _ = ledger.study_of_segment(segment)
        if not caller.may_read(ledger.get(study_id)):
            raise UnknownStudyError.of_segment(segment)


def _require_agent(
    segment: str,
    caller: CurrentCaller,
    ledger: OpenLedger,
    version: Annotated[int, Header(alias=VERSION_HEADER)] = 1,
) -> None:
    check_version(version)
    caller.require_segment(segment)
    check_segment_access(segment, caller, ledger)


TASK_ONLY = Depends(_require_task)
"""Dependency that refuses callers other than tasks."""
AGENT_ONLY = Depends(_require_agent)
"""Dependency that refuses callers other than the segment's agent and tasks of its DAG run."""
