"""The gateway as a FastAPI app, mounted by Airflow's plugin or run alone."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DataError, OperationalError

from hpo_ops import __version__
from hpo_ops.gateway import (
    experiments,
    imports,
    job_routes,
    pool_routes,
    reconcile_routes,
    routes,
)
from hpo_ops.gateway.access import Doorkeeper, Login
from hpo_ops.gateway.conflict import ConflictError
from hpo_ops.gateway.jobs import Jobs, Platform
from hpo_ops.gateway.segments import SegmentOverError
from hpo_ops.gateway.studies import Studies

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (OperationalError, 503),
    (DataError, 422),
    (SegmentOverError, 410),
    (LookupError, 404),
    (ConflictError, 409),
    (ValueError, 422),
)
"""Errors of the rooms below as HTTP answers; each carries a sentence."""


def create_app(
    studies: Studies, *, login: Login | None = None, platform: Platform | None = None
) -> FastAPI:
    """The gateway.

    Args:
        studies: What it does.
        login: Finds the person behind a request; without it only tokens are accepted.
        platform: Starts DAG runs of jobs; without it no jobs are taken.
    """
    app = FastAPI(
        title="hpo-ops gateway",
        version=__version__,
        description="Studies, trials, segments and decisions.",
        # The descriptions have routes of ours, behind the same door as all others.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.studies = studies
    app.state.doorkeeper = Doorkeeper(studies.secret, login)
    app.state.jobs = Jobs(studies.ledger, platform) if platform is not None else None
    for router in (
        routes.tasks,
        routes.agents,
        routes.people,
        job_routes.jobs,
        experiments.experiments,
        imports.imports,
        reconcile_routes.reconciling,
        pool_routes.pools,
    ):
        app.include_router(router, prefix="/api/v1")
    for kind, status in _STATUS:
        app.add_exception_handler(kind, _answer(status))
    return app


def _answer(status: int) -> Callable[[Request, Exception], JSONResponse]:
    def answer(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=status)

    return answer
