"""Opens an object store by its URL: ``s3://``, ``file://`` or ``memory:///``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote, urlsplit

from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore, S3Store

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3CredentialProvider

Store: TypeAlias = S3Store | LocalStore | MemoryStore

STORE_ERRORS = (BaseError, OSError)
"""Exceptions of an object store: it does not answer, denies access, or lacks an object."""

CLIENT: ClientConfig = {
    "connect_timeout": timedelta(seconds=5),
    "read_timeout": timedelta(seconds=60),
    "timeout": timedelta(minutes=10),
}
RETRY: RetryConfig = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Endpoint and keys of an S3 store; secrets are not part of the ``repr``.

    Attributes:
        access_key_id: The access key; None to use the role of the machine.
        secret_access_key: The secret key; None to use the role of the machine.
        session_token: The session token of temporary keys; None if the keys are permanent.
        endpoint: URL of the S3 service; None for AWS.
        region: The region of the bucket.
        allow_http: Whether unencrypted HTTP is allowed for an endpoint on another machine.
    """

    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    region: str = "us-east-1"
    allow_http: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Credentials:
        """Reads the credentials from the standard environment variables ``AWS_*``."""
        endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
        return cls(
            access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
            secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
            session_token=environment.get("AWS_SESSION_TOKEN"),
            endpoint=endpoint or None,
            region=region or "us-east-1",
            allow_http=environment.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true"),
        )


def open_store(
    uri: str,
    credentials: Credentials | None = None,
    *,
    provider: S3CredentialProvider | None = None,
) -> Store:
    """Opens the object store at a URL; keys of objects are relative to the path in the URL.

    Args:
        uri: ``s3://bucket/path``, ``file:///path`` or ``memory:///`` (a new, empty store).
        credentials: Credentials for S3; None to read them from the environment.
        provider: A function that returns temporary keys, which replace the keys in `credentials`;
            None for no such function.

    Raises:
        ValueError: The URL or the endpoint is invalid or not allowed.
    """
    parts = urlsplit(uri)
    if parts.scheme == "s3" and parts.netloc:
        found = credentials or Credentials.from_environment()
        return _open_s3(parts.netloc, parts.path.strip("/"), found, provider)
    if parts.scheme == "file" and parts.path.startswith("/") and not parts.netloc:
        return LocalStore(Path(unquote(parts.path)), automatic_cleanup=True, mkdir=True)
    if parts.scheme == "memory":
        return MemoryStore()
    raise ValueError(f"store is {uri!r}, but must be s3://bucket/path or file:///path")


def _open_s3(
    bucket: str, prefix: str, credentials: Credentials, provider: S3CredentialProvider | None
) -> S3Store:
    config: S3Config = {"region": credentials.region}
    if credentials.access_key_id is not None:
        config["access_key_id"] = credentials.access_key_id
    if credentials.secret_access_key is not None:
        config["secret_access_key"] = credentials.secret_access_key
    if credentials.session_token is not None:
        config["session_token"] = credentials.session_token
    client = CLIENT.copy()
    if credentials.endpoint is not None:
        config["endpoint"] = credentials.endpoint
        client["allow_http"] = _allows_http(credentials.endpoint, credentials.allow_http)
    return S3Store(
        bucket,
        prefix=prefix or None,
        config=config,
        client_options=client,
        retry_config=RETRY,
        credential_provider=provider,
    )


def _allows_http(endpoint: str, is_allowed: bool) -> bool:
    parts = urlsplit(endpoint)
    if parts.scheme == "https":
        return False
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"endpoint is {endpoint!r}, but must be https://… or http://…")
    if not is_allowed and not _is_loopback(parts.hostname):
        raise ValueError(
            f"endpoint is {endpoint!r}, but must be https://… "
            "(set AWS_ALLOW_HTTP=true to send checkpoints unencrypted)"
        )
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
