"""Signing keys of the gateway, and the tokens that are signed with them.

The gateway holds a key ring. The first key signs and all keys verify, so that a new key can be
added at the front while tokens signed with an older key are still in use. From each key, a
separate key is derived for each purpose: Airflow's tasks hold only the key for task tokens, and
cannot sign the tokens of segments.
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
"""Seconds after which a task reads its signing key again, so that it notices a key rotation."""
TASK_KEY_PREFIX = "hpo-task-key"
_KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class TokenKind(StrEnum):
    """The possible holders of a token: a task, the triggerer, an agent, an operator's script."""

    TASK = "task"
    TRIGGERER = "triggerer"
    SEGMENT = "segment"
    SERVICE = "service"


class Purpose(StrEnum):
    """The possible purposes of a derived key: signing the tokens of tasks, agents or scripts.

    The key for ``tasks`` also signs the triggerer's tokens, and the key for ``segments`` signs the
    tokens of agents.
    """

    TASKS = "tasks"
    SEGMENTS = "segments"
    SERVICE = "service"


@dataclass(frozen=True)
class SigningKey:
    """A signing secret and its key id, which each token carries in its header (``kid``).

    Attributes:
        id: Id of the key; empty for a secret that was configured without an id.
        secret: The secret; omitted from the object's ``repr``.
    """

    id: str
    secret: str = field(repr=False)

    def derive(self, purpose: Purpose) -> SigningKey:
        """Derives a key that signs only the tokens of one purpose.

        Neither the original key nor a key for another purpose can be computed from the result.
        """
        digest = hmac.new(self.secret.encode(), f"hpo-ops {purpose}".encode(), hashlib.sha256)
        return SigningKey(self.id, digest.hexdigest())

    def sign(self, kind: TokenKind, subject: str, lifetime: timedelta, **claims: str | int) -> str:
        """Signs a token (JWT) that expires after the given lifetime.

        Args:
            kind: The kind of holder of the token.
            subject: The token's claim ``sub``.
            lifetime: Time until the token expires.
            **claims: Further claims by name.
        """
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
    """The gateway's signing keys: the first key signs tokens, and all keys verify tokens."""

    keys: tuple[SigningKey, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses a key ring from text of the form ``id:secret,older-id:older-secret``.

        Raises:
            ValueError: An id is invalid or repeated, a secret is too short, or the text is empty.
                The message contains no secret.
        """
        keys = [_read_key(part.strip(), place) for place, part in enumerate(text.split(","), 1)]
        ids = [key.id for key in keys]
        if len(set(ids)) < len(ids):
            raise ValueError(f"the key ids are {', '.join(ids)}, but must differ")
        return cls(tuple(keys))

    @classmethod
    def of_secret(cls, secret: str) -> Self:
        """Creates a key ring from a single secret without an id.

        Raises:
            ValueError: The secret is too short.
        """
        _check_length(secret)
        return cls((SigningKey("", secret),))

    @classmethod
    def make(cls, older: Sequence[SigningKey] = ()) -> Self:
        """Creates a key ring with a new random key in front of the older keys."""
        key_id = f"{datetime.now(UTC):%Y%m%d}-{secrets.token_hex(3)}"
        return cls((SigningKey(key_id, secrets.token_urlsafe(MIN_SECRET)), *older))

    def to_text(self) -> str:
        """Formats the key ring, with its secrets, as text that `parse` accepts."""
        return ",".join(f"{key.id}:{key.secret}" for key in self.keys)

    @property
    def first(self) -> SigningKey:
        """The key that signs new tokens."""
        return self.keys[0]

    def find(self, key_id: str) -> SigningKey | None:
        """Returns the key with the given id, or None if the ring does not contain it."""
        return next((key for key in self.keys if key.id == key_id), None)

    def task_key(self) -> str:
        """Returns the task key (the key that signs task tokens) in its text form.

        The text is used as the password of the Airflow connection ``hpo_gateway``, and
        `parse_task_key` parses it.
        """
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
    """Parses the task key (the key that signs task tokens) from its text form.

    Args:
        text: The password of the Airflow connection ``hpo_gateway``.

    Raises:
        ValueError: The password is not a task key; the message explains how to get a task key.
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
    """The Airflow task instance that a task token identifies."""

    dag_id: str
    run_id: str
    task_id: str = ""
    map_index: int = -1


def sign_task_token(key: SigningKey, task: TaskIdentity) -> str:
    """Signs a token for one task instance, valid for the studies of the task's own DAG run."""
    subject = f"{task.dag_id}/{task.run_id}/{task.task_id}/{task.map_index}"
    claims = {"dag": task.dag_id, "run": task.run_id}
    return key.sign(TokenKind.TASK, subject, TASK_TOKEN_TIME, **claims)


def sign_triggerer_token(key: SigningKey) -> str:
    """Signs a token with which the triggerer may list the tasks to wake and send heartbeats."""
    return key.sign(TokenKind.TRIGGERER, "triggerer", TASK_TOKEN_TIME)


class TaskTokens:
    """Signs a new token for each request of a task, so that tokens do not expire in long tasks.

    The signing key is read again every `KEY_SECONDS`, so that a key rotation does not invalidate
    the tokens of a running task.

    Args:
        read_key: Reads the current signing key of tasks.
        task: The task instance.
        clock: Returns the current time in seconds.
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
