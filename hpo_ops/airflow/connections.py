"""Gives tasks and pods access to the gateway and the checkpoint store.

Addresses and credentials come from the Airflow connections `hpo_gateway` and `hpo_s3`.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
from airflow.sdk import BaseHook, Connection, get_current_context
from airflow.sdk.exceptions import AirflowNotFoundException

from hpo_ops.agent.store_credentials import SESSION_VARIABLE
from hpo_ops.checkpoints import Credentials
from hpo_ops.checkpoints.allowed_stores import OWN_STORE_VARIABLE
from hpo_ops.client import GatewayClient, TriggererClient
from hpo_ops.client.token_signing import (
    SigningKey,
    TaskIdentity,
    TaskTokens,
    parse_task_key,
    sign_triggerer_token,
)

if TYPE_CHECKING:
    import httpx

GATEWAY = "hpo_gateway"
"""Id of the gateway's connection. Its password is the key with which tasks sign their tokens."""
STORE = "hpo_s3"
"""Id of the checkpoint store's connection: an AWS connection, also for other S3 services."""
STORE_VARIABLE = OWN_STORE_VARIABLE
POD_HOST_VARIABLE = "HPO_POD_HOST"
"""Environment variable with the host name under which pods reach this machine.

It replaces a loopback address in the URLs of the gateway and the store.
"""
POD_URL, POD_ENDPOINT = "pod_url", "pod_endpoint_url"
"""Extra fields of the gateway's and the store's connection: URLs that pods use instead."""
POD_ROLE = "pod_role_arn"
"""Extra field of the store's connection: the AWS role for pods, which then get no keys."""
_ROLE = re.compile(r"arn:[a-z-]+:iam::\d*:role/[^\s*]+")


def gateway_url(connection: Connection) -> str:
    """Returns the gateway's URL from the fields of the Airflow connection `hpo_gateway`."""
    port = f":{connection.port}" if connection.port else ""
    return f"{connection.schema or 'http'}://{connection.host}{port}"


async def connect_triggerer(http: httpx.AsyncClient) -> TriggererClient:
    """Returns a client of the gateway for triggers.

    Its token is short-lived, so each request to the gateway needs a new client.
    """
    connection = await BaseHook.aget_connection(GATEWAY)
    token = sign_triggerer_token(parse_task_key(connection.password or ""))
    return TriggererClient(gateway_url(connection), token, http=http)


def connect_gateway() -> GatewayClient:
    """Returns a client of the gateway for the running task.

    The client's tokens are valid only for the task's DAG run.
    """
    task = get_current_context()["ti"]
    identity = TaskIdentity(
        dag_id=task.dag_id,
        run_id=task.run_id,
        task_id=task.task_id,
        map_index=-1 if task.map_index is None else task.map_index,
    )
    url = gateway_url(BaseHook.get_connection(GATEWAY))
    return GatewayClient(url, TaskTokens(_task_key, identity))


def _task_key() -> SigningKey:
    return parse_task_key(BaseHook.get_connection(GATEWAY).password or "")


def store_credentials() -> Credentials:
    """Returns the credentials of the checkpoint store from the Airflow connection `hpo_s3`.

    If the connection does not exist, the credentials come from environment variables (``AWS_*``).
    """
    try:
        connection = BaseHook.get_connection(STORE)
        if connection.login and connection.password and not _needs_hook(connection):
            return _plain_credentials(connection)
        hook = AwsBaseHook(aws_conn_id=STORE, client_type="s3")
        keys = hook.get_credentials()
        return Credentials(
            access_key_id=keys.access_key,
            secret_access_key=keys.secret_key,
            session_token=keys.token,
            endpoint=hook.conn_config.get_service_endpoint_url("s3"),
            region=hook.region_name or "us-east-1",
            allow_http=Credentials.from_environment().allow_http,
        )
    except AirflowNotFoundException:
        return Credentials.from_environment()


_PLAIN = {"endpoint_url", "region_name", POD_ENDPOINT, POD_ROLE}
"""Extra fields of an AWS connection that can be read without Airflow's AWS hook."""


def _needs_hook(connection: Connection) -> bool:
    """Checks whether an AWS connection has fields that only Airflow's AWS hook can interpret."""
    return bool(connection.extra_dejson.keys() - _PLAIN)


def _plain_credentials(connection: Connection) -> Credentials:
    """Returns the credentials in an AWS connection's fields; faster than Airflow's AWS hook."""
    extra = connection.extra_dejson
    return Credentials(
        access_key_id=connection.login or "",
        secret_access_key=connection.password or "",
        session_token=None,
        endpoint=extra.get("endpoint_url"),
        region=extra.get("region_name") or "us-east-1",
        allow_http=Credentials.from_environment().allow_http,
    )


def pod_gateway_url() -> str:
    """Returns the URL under which pods reach the gateway."""
    connection = BaseHook.get_connection(GATEWAY)
    url: str | None = connection.extra_dejson.get(POD_URL)
    return url or _from_a_pod(gateway_url(connection))


def _from_a_pod(url: str) -> str:
    """Replaces a loopback address in a URL with the host name under which pods reach this machine.

    Other URLs are returned unchanged, as are all URLs if no such host name is configured.
    """
    parts = urlsplit(url)
    host = os.environ.get(POD_HOST_VARIABLE)
    if not host or parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        return url
    return parts._replace(netloc=f"{host}:{parts.port}" if parts.port else host).geturl()


def store_extra() -> dict[str, Any]:
    """Returns the extra fields of the connection `hpo_s3`; empty if it does not exist."""
    with contextlib.suppress(AirflowNotFoundException):
        extra: dict[str, Any] = BaseHook.get_connection(STORE).extra_dejson
        return extra
    return {}


def pod_role() -> str | None:
    """Returns the ARN of the AWS role for pods, or None if the store's connection names no role.

    Raises:
        ValueError: The value in the connection is not the ARN of a role.
    """
    role: str | None = store_extra().get(POD_ROLE)
    if role and not _ROLE.fullmatch(role):
        raise ValueError(
            f"connection {STORE}: {POD_ROLE} is {role!r}, "
            "but must be like arn:aws:iam::111122223333:role/hpo-pod"
        )
    return role or None


def pods_get_platform_keys() -> bool:
    """Checks whether pods get the platform's own keys, which give access to the whole store."""
    return pod_role() is None and store_credentials().access_key_id is not None


def token_endpoint() -> str | None:
    """Returns the URL of the token service (STS) from the connection `hpo_s3`; None for AWS's."""
    extra = store_extra()
    own: str | None = extra.get("service_config", {}).get("sts", {}).get("endpoint_url")
    return own or extra.get("endpoint_url") or None


def pod_store_environment() -> dict[str, str]:
    """Returns the environment variables with which a pod accesses the store.

    If a role for pods is configured, the variables contain no keys, and the pod's agent requests
    credentials for its segment from the gateway. If there are neither keys nor a role, the pod
    uses its own AWS identity.
    """
    credentials = store_credentials()
    endpoint = _from_a_pod(credentials.endpoint) if credentials.endpoint else None
    endpoint = store_extra().get(POD_ENDPOINT) or endpoint
    is_ours = endpoint != credentials.endpoint
    has_role = pod_role() is not None
    values = {
        "AWS_ACCESS_KEY_ID": None if has_role else credentials.access_key_id,
        "AWS_SECRET_ACCESS_KEY": None if has_role else credentials.secret_access_key,
        "AWS_SESSION_TOKEN": None if has_role else credentials.session_token,
        SESSION_VARIABLE: "true" if has_role else None,
        "AWS_REGION": credentials.region,
        "AWS_ENDPOINT_URL_S3": endpoint,
        # An operator who sets a URL for pods accepts plain HTTP.
        "AWS_ALLOW_HTTP": "true" if credentials.allow_http or is_ours else None,
    }
    return {name: value for name, value in values.items() if value}


def default_store() -> str | None:
    """Returns the URL of the platform's own checkpoint store, or None if it has no store."""
    return os.environ.get(STORE_VARIABLE)
