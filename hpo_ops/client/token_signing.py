"""Signing keys of the gateway, and the tokens that are signed with them.

The gateway holds a key ring. The first key signs, all keys verify, so that a new key can be put in
front while tokens of the old one are still in use. From each key one key per purpose is derived:
Airflow's tasks hold the key for task tokens only, and cannot sign the tokens of segments.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Self

import jwt

AUDIENCE = "hpo-gateway"
ALGORITHM = "HS256"
MIN_SECRET = 32
TASK_TOKEN_TIME = timedelta(minutes=5)
KEY_SECONDS = 300.0
"""How long a task uses a key before it reads the key again, to notice a rotation."""
TASK_KEY_PREFIX = "hpo-task-key"
_KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class TokenKind(StrEnum):
    """The holder of a token: a task, the triggerer, an agent or an operator's script."""

    TASK = "task"
    TRIGGERER = "triggerer"
    SEGMENT = "segment"
    SERVICE = "service"


class Purpose(StrEnum):
    """The kind of tokens that a derived key signs."""

    TASKS = "tasks"
    SEGMENTS = "segments"
    SERVICE = "service"


@dataclass(frozen=True)
class SigningKey:
    """A secret with an id, which is in the header of each token that it signs.

    Attributes:
        id: Name of the key; empty for a secret that was configured without one.
        secret: The secret; never shown.
    """

    id: str
    secret: str = field(repr=False)

    def derive(self, purpose: Purpose) -> SigningKey:
        """The key for one purpose; neither this key nor other purposes' keys follow from it."""
        digest = hmac.new(self.secret.encode(), f"hpo-ops {purpose}".encode(), hashlib.sha256)
        return SigningKey(self.id, digest.hexdigest())

    def sign(self, kind: TokenKind, subject: str, lifetime: timedelta, **claims: str | int) -> str:
        """A token that expires after its lifetime."""
        now = datetime.now(UTC)
        content = {
            **claims,
            "kind": kind.value,
            "sub": subject,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + lifetime,
        }
        return jwt.encode(content, self.secret, algorithm=ALGORITHM, headers={"kid": self.id})


@dataclass(frozen=True)
class KeyRing:
    """The gateway's keys. The first one signs; all of them verify."""

    keys: tuple[SigningKey, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads ``id:secret,older id:older secret``.

        Raises:
            ValueError: An id or a secret cannot be used, or there are none. No secret is shown.
        """
        keys = [_read_key(part.strip(), place) for place, part in enumerate(text.split(","), 1)]
        ids = [key.id for key in keys]
        if len(set(ids)) < len(ids):
            raise ValueError(f"the key ids are {', '.join(ids)}, but must differ")
        return cls(tuple(keys))

    @classmethod
    def of_secret(cls, secret: str) -> Self:
        """The ring of one secret without an id.

        Raises:
            ValueError: The secret is too short.
        """
        _check_length(secret)
        return cls((SigningKey("", secret),))

    @classmethod
    def make(cls, older: Sequence[SigningKey] = ()) -> Self:
        """A ring with a new key in front of older ones."""
        key_id = f"{datetime.now(UTC):%Y%m%d}-{secrets.token_hex(3)}"
        return cls((SigningKey(key_id, secrets.token_urlsafe(MIN_SECRET)), *older))

    def to_text(self) -> str:
        """The ring as `parse` reads it."""
        return ",".join(f"{key.id}:{key.secret}" for key in self.keys)

    @property
    def first(self) -> SigningKey:
        """The key that signs."""
        return self.keys[0]

    def find(self, key_id: str) -> SigningKey | None:
        """The key with an id."""
        return next((key for key in self.keys if key.id == key_id), None)

    def task_key(self) -> str:
        """The password of Airflow's connection ``hpo_gateway``: the key that tasks sign with."""
        key = self.first.derive(Purpose.TASKS)
        return f"{TASK_KEY_PREFIX}:{key.id}:{key.secret}"

    def __iter__(self) -> Iterator[SigningKey]:
        return iter(self.keys)


def _read_key(text: str, place: int) -> SigningKey:
    key_id, colon, secret = text.partition(":")
    if not colon or not _KEY_ID.fullmatch(key_id):
        raise ValueError(
            f"key {place} must be written as id:secret, with an id of letters, digits, '.', '_' "
            "and '-'"
        )
    _check_length(secret)
    return SigningKey(key_id, secret)


def _check_length(secret: str) -> None:
    if len(secret) < MIN_SECRET:
        raise ValueError(f"a secret has {len(secret)} characters, but must have {MIN_SECRET}")


def parse_task_key(text: str) -> SigningKey:
    """The key with which tasks sign, from the connection's password.

    Raises:
        ValueError: It is something else; says how to get one.
    """
    prefix, _, rest = text.partition(":")
    key_id, colon, secret = rest.partition(":")
    if prefix != TASK_KEY_PREFIX or not colon or not secret:
        found = "a token" if text.count(".") == 2 else "something else" if text else "nothing"
        raise ValueError(
            f"the password of the connection hpo_gateway is {found}, but must be a task key: "
            "`hpo keys task` prints it where the gateway's keys are set"
        )
    return SigningKey(key_id, secret)


@dataclass(frozen=True)
class TaskIdentity:
    """The task instance that a token is for."""

    dag_id: str
    run_id: str
    task_id: str = ""
    map_index: int = -1


def sign_task_token(key: SigningKey, task: TaskIdentity) -> str:
    """A token for one task instance, valid for the studies of its own DAG run."""
    subject = f"{task.dag_id}/{task.run_id}/{task.task_id}/{task.map_index}"
    claims = {"dag": task.dag_id, "run": task.run_id}
    return key.sign(TokenKind.TASK, subject, TASK_TOKEN_TIME, **claims)


def sign_triggerer_token(key: SigningKey) -> str:
    """A token for the triggerer: it may ask for waiters to wake, and extend leases."""
    return key.sign(TokenKind.TRIGGERER, "triggerer", TASK_TOKEN_TIME)


class TaskTokens:
    """Makes a fresh token for each request of a task, however long the task runs.

    The key is read again every few minutes, so that a task outlives the rotation of its key.
    """

    def __init__(
        self,
        read_key: Callable[[], SigningKey],
        task: TaskIdentity,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_key = read_key
        self._task = task
        self._clock = clock
        self._key = read_key()
        self._read_at = clock()

    def __call__(self) -> str:
        if self._clock() - self._read_at >= KEY_SECONDS:
            self._key = self._read_key()
            self._read_at = self._clock()
        return sign_task_token(self._key, self._task)
