"""Temporary credentials for pods, by AWS's `AssumeRole` with a session policy.

The connection `hpo_s3` names the role in its extra `pod_role_arn`. What a session may do is what
both the role and the session's own policy allow. The role must trust the platform's user only: a
role that trusts everyone could be assumed again, without the policy, by a session of its own.
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
"""The longest session that AWS allows for a role assumed by another role."""


def open_store_session(access: StoreAccess, segment: str) -> StoreSession:
    """Creates temporary credentials that are limited to one access.

    Raises:
        LookupError: No role is configured.
        ConnectionError: The service did not answer, or refused.
    """
    role = pod_role()
    if role is None:
        raise LookupError(f"connection {STORE} has no {POD_ROLE}: no credentials for segments")
    service = token_service(store_credentials(), endpoint=token_endpoint())
    return assume_role(service, role, access, name=f"segment-{segment}"[:64])


def assume_role(service: Any, role: str, access: StoreAccess, *, name: str) -> StoreSession:
    """Assumes a role for a session that is limited to one access.

    Args:
        service: A client of STS, from `token_service`.
        role: The role's ARN.
        access: What the session is limited to.
        name: Name of the session in the service's audit log.
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
    """A client of the token service (STS); cached, since creating one is slow."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        "sts",
        endpoint_url=endpoint,
        aws_access_key_id=credentials.access_key_id,
        aws_secret_access_key=credentials.secret_access_key,
        aws_session_token=credentials.session_token,
        region_name=credentials.region,
        # An agent that waits for the answer asks again after ten seconds.
        config=Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2}),
    )
