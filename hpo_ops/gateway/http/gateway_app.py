"""The gateway as a FastAPI app, mounted by Airflow's plugin or run alone."""

from __future__ import annotations

from fastapi import Depends, FastAPI

from hpo_ops import __version__
from hpo_ops.gateway.http import job_routes, pool_routes, reconcile_routes, routes
from hpo_ops.gateway.http.authentication import Authenticator, Login
from hpo_ops.gateway.http.error_responses import add_error_answers
from hpo_ops.gateway.http.request_guard import Guard
from hpo_ops.gateway.http.request_limits import REQUESTS_PER_SECOND, RateLimiter
from hpo_ops.gateway.http.store_session_routes import OpenSession, store_sessions
from hpo_ops.gateway.http.token_scopes import TokenScopes
from hpo_ops.gateway.queries import experiment_queries
from hpo_ops.gateway.services import trial_imports
from hpo_ops.gateway.services.job_submission import Jobs, Platform
from hpo_ops.gateway.services.studies import Studies

PREFIX = "/api/v1"


def create_app(
    studies: Studies,
    *,
    login: Login | None = None,
    platform: Platform | None = None,
    open_store_session: OpenSession | None = None,
    requests_per_second: float = REQUESTS_PER_SECOND,
) -> FastAPI:
    """The gateway.

    Args:
        studies: What it does.
        login: Finds the person behind a request; without it only tokens are accepted.
        platform: Starts DAG runs of jobs; without it no jobs are taken.
        open_store_session: Makes temporary credentials of the store for agents in pods.
        requests_per_second: What each caller may send on average; 0 for any number.
    """
    app = FastAPI(
        title="hpo-ops gateway",
        version=__version__,
        description="Studies, trials, segments and decisions.",
        # The descriptions have routes of ours, behind the same door as all others.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(TokenScopes(studies.ledger, PREFIX))],
    )
    app.add_middleware(
        Guard,
        authenticator=Authenticator(studies.keys, login),
        rate=RateLimiter(requests_per_second),
        keys=studies.keys,
        prefix=PREFIX,
    )
    app.state.studies = studies
    app.state.jobs = Jobs(studies.ledger, platform) if platform is not None else None
    app.state.open_store_session = open_store_session
    for router in (
        routes.tasks,
        routes.agents,
        store_sessions,
        routes.people,
        job_routes.jobs,
        experiment_queries.experiments,
        trial_imports.imports,
        reconcile_routes.reconciling,
        pool_routes.pools,
    ):
        app.include_router(router, prefix=PREFIX)
    add_error_answers(app)
    return app
