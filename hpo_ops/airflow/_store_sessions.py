"""Creates temporary store credentials for pods with AWS's `AssumeRole` and a session policy.

The connection `hpo_s3` names the role in its extra field `pod_role_arn`. A session has the
permissions that both the role and the session's policy grant. The role must trust only the
platform's user: otherwise a pod could assume the role again without the session policy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from hpo_ops.airflow.connections import (
    POD_ROLE,
    STORE,
    pod_role,
    store_credentials,
    token_endpoint,
)
from hpo_ops.checkpoints import Credentials
from hpo_ops.checkpoints.session_policy import StoreAccess, session_policy
from hpo_ops.client.store_session import StoreSession

SESSION_SECONDS = 3600
"""Lifetime of the credentials: the longest that AWS allows if one role assumes another role."""


def open_store_session(access: StoreAccess, segment: str) -> StoreSession:
    """Creates temporary store credentials for one segment (one execution of a trial).

    Args:
        access: The parts of the store to which the credentials are limited.
        segment: The segment's id, which becomes part of the session's name.

    Raises:
        LookupError: No role for pods is configured.
        ConnectionError: The token service did not answer, or refused the request.
    """
    role = pod_role()
    if role is None:
        raise LookupError(f"connection {STORE} has no {POD_ROLE}: no credentials for segments")
    service = token_service(store_credentials(), endpoint=token_endpoint())
    return assume_role(service, role, access, name=f"segment-{segment}"[:64])


def assume_role(service: Any, role: str, access: StoreAccess, *, name: str) -> StoreSession:
    """Requests temporary credentials of an AWS role, limited to some parts of the store.

    Args:
        service: A client of the token service (STS), from `token_service`.
        role: The role's ARN.
        access: The parts of the store to which the credentials are limited.
        name: Name of the session in the service's audit log.

    Raises:
        ConnectionError: The token service did not answer, or refused the request.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    policy = session_policy(access, partition=role.split(":")[1])
    try:
        answer = service.assume_role(
            RoleArn=role, RoleSessionName=name, Policy=policy, DurationSeconds=SESSION_SECONDS
        )
    except (BotoCoreError, ClientError) as error:
        raise ConnectionError(f"{role} could not be assumed: {error}") from error
    keys = answer["Credentials"]
    return StoreSession(
        access_key_id=keys["AccessKeyId"],
        secret_access_key=keys["SecretAccessKey"],
        session_token=keys["SessionToken"],
        expires_at=keys["Expiration"].isoformat(),
    )


@lru_cache(maxsize=4)
def token_service(credentials: Credentials, *, endpoint: str | None) -> Any:
    """Returns a client of the token service (STS), from a cache, since creating one is slow.

    Args:
        credentials: The credentials of the platform's user.
        endpoint: URL of the token service; None for AWS's own token service.
    """
    import boto3
    from botocore.config import Config

    return boto3.client(
        "sts",
        endpoint_url=endpoint,
        aws_access_key_id=credentials.access_key_id,
        aws_secret_access_key=credentials.secret_access_key,
        aws_session_token=credentials.session_token,
        region_name=credentials.region,
        # The agent that waits for the answer repeats its request after ten seconds.
        config=Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2}),
    )
