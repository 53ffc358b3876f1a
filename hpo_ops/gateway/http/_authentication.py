"""Authentication: finds the caller of a request by its credentials."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import HTTPException, Request, status

from hpo_ops.client.token_signing import KeyRing, TokenKind
from hpo_ops.gateway.http._caller_rights import PLATFORM_DAG, Caller, User
from hpo_ops.gateway.tokens import BadTokenError, Claims, read_token

Login = Callable[[Request], Awaitable[User]]
"""Finds the person who sent a request, or raises HTTPException 401 or 403."""


class Authenticator:
    """Finds the caller of a request by its headers; the body is not read.

    A request without a valid credential is refused with 401: no route is public.

    Args:
        keys: Verify tokens that the gateway or a task has signed.
        login: Finds the person behind any other credential; None accepts tokens only.
    """

    def __init__(self, keys: KeyRing, login: Login | None) -> None:
        self._keys = keys
        self._login = login

    async def __call__(self, request: Request) -> Caller:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        why = "the request needs a valid token"
        if scheme.lower() == "bearer":
            try:
                claims = read_token(self._keys, token)
            except BadTokenError as error:
                if error.is_ours:
                    raise _unauthorized(f"{why}: {error}") from error
            else:
                return _caller_of(claims)
        if self._login is None:
            raise _unauthorized(why)
        return Caller(user=await self._login(request))


def _caller_of(claims: Claims) -> Caller:
    """The holder of a token that the gateway or a task has signed."""
    if claims.kind is TokenKind.SEGMENT:
        return Caller(segment=claims.subject, claims=claims)
    is_limited = claims.kind is TokenKind.TASK and claims.dag_id != PLATFORM_DAG
    return Caller(dag_run=(claims.dag_id, claims.run_id) if is_limited else None, claims=claims)


def _unauthorized(why: str) -> HTTPException:
    return HTTPException(status.HTTP_401_UNAUTHORIZED, why, headers={"WWW-Authenticate": "Bearer"})
