"""Routes of jobs: submit a job (a study as JSON with its code), and look up its status."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Depends, Header, HTTPException, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from hpo_ops.client.job_messages import JobStatus
from hpo_ops.config.job_file import Job
from hpo_ops.gateway.http._route_dependencies import PEOPLE, CurrentCaller
from hpo_ops.gateway.http.request_limits import JOB_BODY
from hpo_ops.gateway.services.job_submission import Jobs


async def _job_service(request: Request) -> Jobs:
    jobs: Jobs | None = request.app.state.jobs
    if jobs is None:
        raise HTTPException(
            503,
            "this gateway runs outside of Airflow and cannot start jobs: submit them "
            "to the gateway in Airflow's api-server",
        )
    return jobs


JobService = Annotated[Jobs, Depends(_job_service)]
IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)
]
job_router = APIRouter(prefix="/jobs", tags=[PEOPLE])

_BODY = {
    "application/json": {"schema": Job.model_json_schema()},
    "multipart/form-data": {
        "schema": {
            "type": "object",
            "required": ["job", "code"],
            "properties": {
                "job": {"type": "string", "description": "The job as JSON."},
                "code": {"type": "string", "format": "binary", "description": "A tar.gz archive."},
            },
        }
    },
}


@job_router.post("", status_code=201, openapi_extra={"requestBody": {"content": _BODY}})
async def submit(
    request: Request,
    response: Response,
    caller: CurrentCaller,
    service: JobService,
    key: IdempotencyKey = None,
) -> JobStatus:
    """Starts a study from a job and returns the job's status.

    For a job that was submitted before, only the status is returned.
    """
    caller.require_person()
    caller.require_start(service.dag_id)
    take = partial(service.submit, key=key, user=caller.name)
    if _is_form(request):
        async with request.form(max_files=2, max_fields=2, max_part_size=JOB_BODY) as form:
            data, archive = await _read_job(form.get("job")), _archive(form.get("code"))
            status, is_new = await run_in_threadpool(take, data, archive=archive)
    else:
        data = _parse(await request.body())
        status, is_new = await run_in_threadpool(take, data, archive=None)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"{request.url.path}/{status.job}?run_id={status.run_id}"
    return status


@job_router.get("/{name}")
def status(
    name: str, caller: CurrentCaller, service: JobService, run_id: str | None = None
) -> JobStatus:
    """Shows the status of a job: its state, its completion, its best trial so far."""
    caller.require_person()
    return service.status(name, run_id, user=caller.name, may_read=caller.may_read)


def _is_form(request: Request) -> bool:
    return request.headers.get("Content-Type", "").startswith("multipart/form-data")


async def _read_job(part: UploadFile | str | None) -> Any:
    if part is None:
        raise HTTPException(422, "job is missing, but is required: the job as JSON")
    return _parse(part if isinstance(part, str) else await part.read(JOB_BODY))


def _parse(text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HTTPException(422, f"job is not valid JSON: {error}") from error


def _archive(part: UploadFile | str | None) -> BinaryIO | None:
    if isinstance(part, str):
        raise HTTPException(422, "code is text, but must be a file (curl: -F code=@model.tar.gz)")
    return part.file if part is not None else None
