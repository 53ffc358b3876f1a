"""Temporary credentials for the checkpoint store, which the gateway issues to agents."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class StoreSession(Message):
    """Temporary S3 credentials that are restricted to one segment's part of the object store.

    Attributes:
        expires_at: When the credentials expire, in ISO 8601 format with a time zone.
    """

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_at: str

    @property
    def expiry(self) -> datetime:
        """The time at which the credentials expire."""
        return datetime.fromisoformat(self.expires_at)
