"""The gateway inside Airflow's api-server, with Airflow's own login."""

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
"""Time that the api-server waits at its start for the ledger's database."""


@dataclass(frozen=True)
class AirflowUser:
    """A person who is logged in to Airflow, with the rights from its auth manager."""

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
        """Whether the person is an operator: may change Airflow's connections, and so read the
        gateway's credentials."""
        return get_auth_manager().is_authorized_connection(method="PUT", user=self.user)

    def _may(self, method: Literal["GET", "POST", "PUT"], dag_id: str) -> bool:
        return get_auth_manager().is_authorized_dag(
            method=method,
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_id),
            user=self.user,
        )


async def log_in(request: Request) -> AirflowUser:
    """The person behind a request: by a token, or for reading by the UI's cookie.

    A cookie alone changes nothing, so that another site cannot act through a browser.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        token = request.cookies.get(COOKIE_NAME_JWT_TOKEN, "")
        if token and request.method not in SAFE_METHODS:
            raise HTTPException(403, "a change needs a token in the Authorization header")
    return AirflowUser(await resolve_user_from_token(token))


def create_gateway(environment: Mapping[str, str] = os.environ) -> FastAPI:
    """The gateway for Airflow's api-server."""
    platform = Platform(
        runs=AirflowRuns(),
        open_store=_open_store,
        folder=code_folder(),
        runner=job_runner(environment),
        most_trials=generic_most_trials(),
    )
    # Airflow ignores a plugin that fails at its start, and never loads it again.
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
