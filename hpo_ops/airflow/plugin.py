"""Runs the gateway inside Airflow's api-server, with Airflow's login and permissions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import resolve_user_from_token
from fastapi import FastAPI, HTTPException, Request

from hpo_ops.airflow._dag_runs import AirflowRuns
from hpo_ops.airflow._running_studies import code_folder
from hpo_ops.airflow._store_sessions import open_store_session
from hpo_ops.airflow.connections import STORE_VARIABLE, default_store, store_credentials
from hpo_ops.airflow.trigger_form import generic_most_trials
from hpo_ops.checkpoints import Store, open_store
from hpo_ops.gateway.gateway_settings import job_runner, open_gateway, read_rate
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.gateway.services.job_submission import Platform

SAFE_METHODS = ("GET", "HEAD")
LEDGER_SECONDS = 60.0
"""Time that the api-server waits for the ledger's database when it starts."""


@dataclass(frozen=True)
class AirflowUser:
    """A person who is logged in to Airflow, with the permissions from Airflow's auth manager."""

    user: BaseUser

    @property
    def name(self) -> str:
        return self.user.get_name()

    def may_read(self, dag_id: str) -> bool:
        return self._may("GET", dag_id)

    def may_edit(self, dag_id: str) -> bool:
        return self._may("PUT", dag_id)

    def may_start(self, dag_id: str) -> bool:
        return self._may("POST", dag_id)

    def may_operate(self) -> bool:
        """Checks whether the person is an operator.

        Operators are the people who may change Airflow's connections, and who can therefore read
        the gateway's credentials.
        """
        return get_auth_manager().is_authorized_connection(method="PUT", user=self.user)

    def _may(self, method: Literal["GET", "POST", "PUT"], dag_id: str) -> bool:
        return get_auth_manager().is_authorized_dag(
            method=method,
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_id),
            user=self.user,
        )


async def log_in(request: Request) -> AirflowUser:
    """Identifies the person who sent a request.

    A token in the Authorization header is accepted for all requests. The cookie of Airflow's UI is
    accepted only for requests that read, so that another website cannot make changes through the
    person's browser (cross-site request forgery).

    Raises:
        HTTPException: The token is missing or invalid, or a change was requested with a cookie.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        token = request.cookies.get(COOKIE_NAME_JWT_TOKEN, "")
        if token and request.method not in SAFE_METHODS:
            raise HTTPException(403, "a change needs a token in the Authorization header")
    return AirflowUser(await resolve_user_from_token(token))


def create_gateway(environment: Mapping[str, str] = os.environ) -> FastAPI:
    """Creates the gateway's app, which Airflow's api-server mounts."""
    platform = Platform(
        runs=AirflowRuns(),
        open_store=_open_store,
        folder=code_folder(),
        runner=job_runner(environment),
        most_trials=generic_most_trials(),
    )
    # Waits for the database: Airflow ignores a plugin that fails to load, until it is restarted.
    return create_app(
        open_gateway(environment, wait_seconds=LEDGER_SECONDS),
        login=log_in,
        platform=platform,
        open_store_session=open_store_session,
        requests_per_second=read_rate(environment),
    )


def _open_store() -> tuple[str, Store]:
    address = default_store()
    if address is None:
        raise ValueError(f"the platform has no store of its own ({STORE_VARIABLE})")
    return address, open_store(address, store_credentials())
