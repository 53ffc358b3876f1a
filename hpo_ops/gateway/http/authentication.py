"""Rights of those who call the gateway: tasks of one DAG run, agents of one segment, people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from fastapi import HTTPException, Request, status

from hpo_ops.client.token_signing import KeyRing, TokenKind
from hpo_ops.gateway.http.tokens import BadTokenError, Claims, read_token
from hpo_ops.ledger.study_identity import is_generic

PLATFORM_DAG = "hpo_reconcile"
"""The platform's own DAG: its tasks repair all studies, and who may act on it sets the pools."""


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

    def may_operate(self) -> bool:
        """Whether they run the platform, and so may act on what other people own."""
        ...


Login = Callable[[Request], Awaitable[User]]
"""Finds the person behind a request, or raises HTTPException 401 or 403."""


class Owned(Protocol):
    """What of a study, or of anything that belongs to one, decides who may do what with it."""

    @property
    def dag_id(self) -> str:
        """Its DAG."""
        ...

    @property
    def run_id(self) -> str:
        """Its DAG run."""
        ...

    @property
    def owner(self) -> str | None:
        """The person who triggered that run; None where nobody did, as for a schedule."""
        ...


Right = Callable[[Owned], bool]
"""Whether a caller may do something with a study, or with what belongs to one."""


@dataclass(frozen=True)
class Caller:
    """Who sent a request: a task, an agent, or a person.

    Attributes:
        segment: The segment whose agent it is.
        user: The person.
        dag_run: DAG id and run id to which a task's token is limited; None for all.
        claims: What the gateway's own token says, where there was one.
    """

    segment: str | None = None
    user: User | None = None
    dag_run: tuple[str, str] | None = None
    claims: Claims | None = None

    @property
    def is_task(self) -> bool:
        return self.segment is None and self.user is None

    @property
    def is_platform(self) -> bool:
        """Whether it is a task of the platform itself, which acts on all studies."""
        return self.is_task and self.dag_run is None

    @property
    def name(self) -> str:
        return self.user.name if self.user else self.segment or "a task"

    def require_task(self) -> None:
        if not self.is_task:
            raise _forbidden("only the tasks of a study may do this")

    def require_segment(self, segment: str) -> None:
        if not self.is_task and self.segment != segment:
            raise _forbidden(f"this token is not for segment {segment}")

    def require_person(self) -> None:
        if self.segment is not None:
            raise _forbidden("the token of a segment is for that segment alone")

    # -- studies -----------------------------------------------------------------------------

    def may_read(self, study: Owned) -> bool:
        """Whether the caller may see a study: as Airflow shows the DAG with all of its runs."""
        if self.is_task:
            return self._is_of_run(study)
        return self.user is not None and self.user.may_read(study.dag_id)

    def may_edit(self, study: Owned) -> bool:
        """Whether the caller may act on a study.

        A generic DAG has studies of many people: there a study is for its owner, who needs no more
        than the right to trigger the DAG, and for who runs the platform. One that nobody triggered
        is for everyone with the right on the DAG.
        """
        if self.is_task:
            return self._is_of_run(study)
        user, dag_id = self.user, study.dag_id
        if user is None:
            return False
        if not is_generic(dag_id):
            return user.may_edit(dag_id)
        if study.owner == user.name:
            return user.may_start(dag_id) or user.may_edit(dag_id)
        return user.may_edit(dag_id) and (study.owner is None or user.may_operate())

    def require_edit(self, study: Owned) -> None:
        """Refuses a caller who may see a study and may not act on it."""
        if self.may_edit(study):
            return
        if self.user is not None and self.user.may_edit(study.dag_id):
            raise _forbidden(
                f"this study of {study.dag_id} belongs to {study.owner}: only they, "
                "and who may change Airflow's connections, may change it"
            )
        raise _forbidden(f"no right to change {study.dag_id}")

    def require_run(self, dag_id: str, run_id: str) -> None:
        """Refuses a task that speaks for another DAG run than its token is for."""
        if self.dag_run is not None and self.dag_run != (dag_id, run_id):
            raise _forbidden(f"this token is not for the run {run_id} of {dag_id}")

    def _is_of_run(self, study: Owned) -> bool:
        return self.dag_run is None or self.dag_run == (study.dag_id, study.run_id)

    def may_operate(self) -> bool:
        """Whether the caller acts for the platform as a whole."""
        return self.is_platform or (self.user is not None and self.user.may_operate())

    # -- DAGs --------------------------------------------------------------------------------

    def require_edit_dag(self, dag_id: str) -> None:
        if not self.is_platform and (self.user is None or not self.user.may_edit(dag_id)):
            raise _forbidden(f"no right to change {dag_id}")

    def require_start(self, dag_id: str) -> None:
        if not self.is_platform and (self.user is None or not self.user.may_start(dag_id)):
            raise _forbidden(f"no right to start runs of {dag_id}")


def _forbidden(why: str) -> HTTPException:
    return HTTPException(status.HTTP_403_FORBIDDEN, why)


class Authenticator:
    """Finds out who sent a request, by its headers alone. Nothing answers without a credential."""

    def __init__(self, keys: KeyRing, login: Login | None) -> None:
        self._keys = keys
        self._login = login

    async def __call__(self, request: Request) -> Caller:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        why = "a valid token is needed"
        if scheme.lower() == "bearer":
            try:
                claims = read_token(self._keys, token)
            except BadTokenError as error:
                if error.is_ours:
                    raise _unauthorized(f"{why}: {error}") from error
            else:
                return _holder(claims)
        if self._login is None:
            raise _unauthorized(why)
        return Caller(user=await self._login(request))


def _holder(claims: Claims) -> Caller:
    """Who holds a token of the gateway's own."""
    if claims.kind is TokenKind.SEGMENT:
        return Caller(segment=claims.subject, claims=claims)
    is_limited = claims.kind is TokenKind.TASK and claims.dag_id != PLATFORM_DAG
    return Caller(dag_run=(claims.dag_id, claims.run_id) if is_limited else None, claims=claims)


def _unauthorized(why: str) -> HTTPException:
    return HTTPException(status.HTTP_401_UNAUTHORIZED, why, headers={"WWW-Authenticate": "Bearer"})
