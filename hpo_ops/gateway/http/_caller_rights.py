"""Callers of the gateway and their rights: tasks of one DAG run, agents of one segment, people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fastapi import HTTPException, status

from hpo_ops.gateway.services.owned_resource import OwnedResource
from hpo_ops.gateway.tokens import Claims
from hpo_ops.ledger.study_identity import is_generic

PLATFORM_DAG = "hpo_reconcile"
"""The platform's own DAG. Its tasks repair all studies; who may edit it may set pools."""


class User(Protocol):
    """A person who has logged in to the platform, with their rights on DAGs."""

    @property
    def name(self) -> str:
        """The user name, which is recorded as the owner of studies."""
        ...

    def may_read(self, dag_id: str) -> bool:
        """Whether the person may see a DAG and its runs."""
        ...

    def may_edit(self, dag_id: str) -> bool:
        """Whether the person may change runs of a DAG."""
        ...

    def may_start(self, dag_id: str) -> bool:
        """Whether the person may start runs of a DAG."""
        ...

    def may_operate(self) -> bool:
        """Whether the person operates the platform, and so may change studies of other people."""
        ...


@dataclass(frozen=True)
class Caller:
    """The sender of a request: a task, an agent or a person.

    Methods named `require_…` raise HTTPException 403 where the caller lacks a right.

    Attributes:
        segment: The segment, if the caller is its agent.
        user: The person, if the caller is one.
        dag_run: DAG id and run id to which a task's token is limited; None for no limit.
        claims: Content of the caller's token, if the gateway has issued it.
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
        """Whether the caller is a task of the platform itself, which acts on all studies."""
        return self.is_task and self.dag_run is None

    @property
    def name(self) -> str:
        return self.user.name if self.user else self.segment or "a task"

    def require_task(self) -> None:
        if not self.is_task:
            raise _forbidden("only tasks of the study's DAG run may send this request")

    def require_segment(self, segment: str) -> None:
        if not self.is_task and self.segment != segment:
            raise _forbidden(f"this token is not valid for segment {segment}")

    def require_person(self) -> None:
        """Refuses agents; tasks may read what people may read."""
        if self.segment is not None:
            raise _forbidden("the token of a segment is valid for requests of its agent only")

    # -- studies -----------------------------------------------------------------------------

    def may_read(self, study: OwnedResource) -> bool:
        """Whether the caller may see a study: people see the studies of DAGs that they may see."""
        if self.is_task:
            return self._is_task_of(study)
        return self.user is not None and self.user.may_read(study.dag_id)

    def may_edit(self, study: OwnedResource) -> bool:
        """Whether the caller may change a study.

        A study with a DAG of its own may be changed by everyone who may edit the DAG. A generic
        DAG has studies of many people: there the owner may change a study, with no more than the
        right to trigger the DAG, and so may operators of the platform. A study without an owner
        may be changed by everyone who may edit the DAG.
        """
        if self.is_task:
            return self._is_task_of(study)
        user, dag_id = self.user, study.dag_id
        if user is None:
            return False
        if not is_generic(dag_id):
            return user.may_edit(dag_id)
        if study.owner == user.name:
            return user.may_start(dag_id) or user.may_edit(dag_id)
        return user.may_edit(dag_id) and (study.owner is None or user.may_operate())

    def require_edit(self, study: OwnedResource) -> None:
        """Refuses a caller who may see a study but may not change it."""
        if self.may_edit(study):
            return
        if self.user is not None and self.user.may_edit(study.dag_id):
            raise _forbidden(
                f"this study of {study.dag_id} belongs to {study.owner}: only they, and people "
                "who may change Airflow's connections, may change it"
            )
        raise _forbidden(f"no right to change {study.dag_id}")

    def require_run(self, dag_id: str, run_id: str) -> None:
        """Refuses a task whose token is for another DAG run."""
        if self.dag_run is not None and self.dag_run != (dag_id, run_id):
            raise _forbidden(f"this token is not valid for the run {run_id} of {dag_id}")

    def _is_task_of(self, study: OwnedResource) -> bool:
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
