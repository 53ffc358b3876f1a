"""Who may do what: tasks with a service token, agents with a token of one segment, people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from fastapi import HTTPException, Request, status

from hpo_ops.gateway.tokens import BadTokenError, TokenKind, read_token


class User(Protocol):
    """A person who has logged in, as the platform around the gateway knows them."""

    @property
    def name(self) -> str:
        """For the record."""
        ...

    def may_read(self, dag_id: str) -> bool:
        """Whether they may see a DAG."""
        ...

    def may_edit(self, dag_id: str) -> bool:
        """Whether they may act on a DAG's runs."""
        ...

    def may_start(self, dag_id: str) -> bool:
        """Whether they may start runs of a DAG."""
        ...


Login = Callable[[Request], Awaitable[User]]
"""Finds the person behind a request, or raises HTTPException 401 or 403."""


@dataclass(frozen=True)
class Caller:
    """Who sent a request: a task, an agent, or a person."""

    segment: str | None = None
    user: User | None = None

    @property
    def is_task(self) -> bool:
        return self.segment is None and self.user is None

    def require_task(self) -> None:
        if not self.is_task:
            raise _forbidden("only the tasks of a study may do this")

    def require_segment(self, segment: str) -> None:
        if not self.is_task and self.segment != segment:
            raise _forbidden(f"this token is not for segment {segment}")

    @property
    def name(self) -> str:
        return self.user.name if self.user else self.segment or "a task"

    def may_read(self, dag_id: str) -> bool:
        return self.is_task or (self.user is not None and self.user.may_read(dag_id))

    def require_person(self) -> None:
        if self.segment is not None:
            raise _forbidden("the token of a segment is for that segment alone")

    def require_read(self, dag_id: str) -> None:
        if not self.may_read(dag_id):
            raise _forbidden(f"no right to see {dag_id}")

    def may_edit(self, dag_id: str) -> bool:
        return self.is_task or (self.user is not None and self.user.may_edit(dag_id))

    def require_edit(self, dag_id: str) -> None:
        if not self.may_edit(dag_id):
            raise _forbidden(f"no right to change {dag_id}")

    def require_start(self, dag_id: str) -> None:
        if not self.is_task and (self.user is None or not self.user.may_start(dag_id)):
            raise _forbidden(f"no right to start runs of {dag_id}")


def _forbidden(why: str) -> HTTPException:
    return HTTPException(status.HTTP_403_FORBIDDEN, why)


class Doorkeeper:
    """Finds out who sent a request. Nothing answers without a credential."""

    def __init__(self, secret: str, login: Login | None) -> None:
        self._secret = secret
        self._login = login

    async def __call__(self, request: Request) -> Caller:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            try:
                claims = read_token(self._secret, token)
            except BadTokenError:
                pass  # perhaps a person's
            else:
                is_segment = claims.kind is TokenKind.SEGMENT
                return Caller(segment=claims.subject if is_segment else None)
        if self._login is None:
            raise HTTPException(
                status.HTTP_401_UNAUTHORIZED,
                "a valid token is needed",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return Caller(user=await self._login(request))
