"""The gateway as a FastAPI app, mounted by Airflow's plugin or run on its own."""

from __future__ import annotations

from fastapi import Depends, FastAPI

from hpo_ops import __version__
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http._api_description_routes import api_description_router
from hpo_ops.gateway.http._authentication import Authenticator, Login
from hpo_ops.gateway.http._error_responses import add_error_responses
from hpo_ops.gateway.http._experiment_routes import experiment_router
from hpo_ops.gateway.http._import_routes import import_router
from hpo_ops.gateway.http._job_routes import job_router
from hpo_ops.gateway.http._pool_routes import pool_router
from hpo_ops.gateway.http._reconcile_routes import reconcile_router
from hpo_ops.gateway.http._recording_routes import recording_router
from hpo_ops.gateway.http._request_guard import RequestGuard
from hpo_ops.gateway.http._round_routes import round_router
from hpo_ops.gateway.http._segment_routes import segment_router, segment_task_router
from hpo_ops.gateway.http._store_session_routes import OpenSession, store_session_router
from hpo_ops.gateway.http._study_control_routes import study_control_router
from hpo_ops.gateway.http._study_routes import study_router, study_task_router
from hpo_ops.gateway.http._token_scopes import TokenScopes
from hpo_ops.gateway.http._trial_routes import trial_router, trial_task_router
from hpo_ops.gateway.http.request_limits import REQUESTS_PER_SECOND, RateLimiter
from hpo_ops.gateway.services.job_submission import Jobs, Platform

PREFIX = "/api/v1"


def create_app(
    gateway: Gateway,
    *,
    login: Login | None = None,
    platform: Platform | None = None,
    open_store_session: OpenSession | None = None,
    requests_per_second: float = REQUESTS_PER_SECOND,
) -> FastAPI:
    """Creates the gateway's app.

    Args:
        gateway: The services behind the routes.
        login: Identifies the person who sent a request; if None, only tokens are accepted.
        platform: Starts the DAG runs of jobs; if None, jobs are refused.
        open_store_session: Issues temporary credentials of the store for agents in pods; if
            None, requests for credentials are refused.
        requests_per_second: Requests that each caller may send on average; 0 for no limit.
    """
    app = FastAPI(
        title="hpo-ops gateway",
        version=__version__,
        description="Hyperparameter studies: their trials, segments, decisions and checkpoints.",
        # FastAPI's own description routes would be public: see api_description_routes.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(TokenScopes(gateway.ledger, PREFIX))],
    )
    app.add_middleware(
        RequestGuard,
        authenticator=Authenticator(gateway.keys, login),
        rate=RateLimiter(requests_per_second),
        keys=gateway.keys,
        prefix=PREFIX,
    )
    app.state.gateway = gateway
    app.state.jobs = Jobs(gateway.ledger, platform) if platform is not None else None
    app.state.open_store_session = open_store_session
    for router in (
        study_task_router,
        round_router,
        trial_task_router,
        segment_task_router,
        segment_router,
        store_session_router,
        api_description_router,
        study_router,
        study_control_router,
        trial_router,
        recording_router,
        experiment_router,
        job_router,
        import_router,
        reconcile_router,
        pool_router,
    ):
        app.include_router(router, prefix=PREFIX)
    add_error_responses(app)
    return app
