"""Temporary credentials for the checkpoint store, as the gateway hands them to an agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class StoreSession(Message):
    """Credentials that are good for one segment's part of the store, until they expire.

    Attributes:
        expires_at: ISO 8601, with a time zone.
    """

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_at: str

    @property
    def expiry(self) -> datetime:
        return datetime.fromisoformat(self.expires_at)
