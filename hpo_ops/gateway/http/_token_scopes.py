"""Scopes of tokens: the routes and studies for which a task's or triggerer's token is valid.

A task's token is valid for the study of the task's DAG run. The triggerer's token is valid for two
routes, `/ready` (waiting tasks) and `/alive` (heartbeats). The token of the reconciler's task is
valid for the reconciler's routes and all studies.
"""

from __future__ import annotations

from collections import OrderedDict

from fastapi import HTTPException, Request, status
from fastapi.concurrency import run_in_threadpool

from hpo_ops.client.token_signing import TokenKind
from hpo_ops.gateway.http._caller_rights import PLATFORM_DAG, Caller
from hpo_ops.ledger import Ledger
from hpo_ops.ledger.ledger import UnknownStudyError

MAX_REMEMBERED = 4096
"""The largest number of studies and segments whose DAG run a process caches in memory."""
Run = tuple[str, str]
"""A DAG id and a run id."""

_TRIGGERER = {("POST", "/ready"), ("POST", "/alive")}
_RECONCILER = {
    ("POST", "/reconcile"),
    ("GET", "/pools"),
    ("POST", "/pools/{name}/found"),
    ("GET", "/studies/{study_id}/config"),
    ("POST", "/studies/{study_id}/close"),
    ("POST", "/studies/{study_id}/segments/{segment}/lose"),
    ("POST", "/studies/{study_id}/leases/free"),
}
_CHECKED_BY_THE_ROUTE = {("POST", "/studies"), ("POST", "/trials/{trial}/next_action")}
"""Routes that themselves compare the DAG run in the body or query with the token's DAG run."""


class TokenScopes:
    """Refuses requests outside the scope of a task's or the triggerer's token with status 403.

    A request for a study that does not exist and a request for a study of another DAG run are
    refused with the same message, so that a task does not learn which studies exist.
    """

    def __init__(self, ledger: Ledger, prefix: str) -> None:
        self._ledger = ledger
        self._prefix = prefix
        self._runs: OrderedDict[int | str, Run] = OrderedDict()

    async def __call__(self, request: Request) -> None:
        caller: Caller = request.state.caller
        claims = caller.claims
        if claims is None or claims.kind not in (TokenKind.TASK, TokenKind.TRIGGERER):
            return
        template = getattr(request.scope.get("route"), "path_format", "")
        route = (request.method, template.removeprefix(self._prefix))
        if claims.kind is TokenKind.TRIGGERER:
            is_allowed = route in _TRIGGERER
        elif claims.dag_id == PLATFORM_DAG:
            is_allowed = route in _RECONCILER
        elif route in _CHECKED_BY_THE_ROUTE:
            is_allowed = True
        else:
            is_allowed = await self._run_of(request) == (claims.dag_id, claims.run_id)
        if not is_allowed:
            raise HTTPException(
                status.HTTP_403_FORBIDDEN,
                f"the token of a {claims.kind} is not valid for this request",
            )

    async def _run_of(self, request: Request) -> Run | None:
        """Finds the DAG run of the study or segment that the request's path names.

        Returns:
            The DAG run; None if the path names no study or segment, or if the study or segment
            does not exist.
        """
        named: int | str | None = None
        if "study_id" in request.path_params:
            text = str(request.path_params["study_id"])
            named = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
        elif "segment" in request.path_params:
            named = str(request.path_params["segment"])
        if named is None:
            return None
        known = self._runs.get(named)
        if known is None:
            known = await run_in_threadpool(self._look_up, named)
            if known is not None:
                self._runs[named] = known
                while len(self._runs) > MAX_REMEMBERED:
                    self._runs.popitem(last=False)
        return known

    def _look_up(self, named: int | str) -> Run | None:
        try:
            study_id = named if isinstance(named, int) else self._ledger.study_of_segment(named)[0]
            record = self._ledger.get(study_id)
        except UnknownStudyError:
            return None
        return record.dag_id, record.run_id
