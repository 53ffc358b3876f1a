"""Callers of the gateway and their rights.

A caller is a task of one DAG run, the agent of one segment (one uninterrupted execution of a
trial), or a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fastapi import HTTPException, status

from hpo_ops.gateway.services.owned_resource import OwnedResource
from hpo_ops.gateway.tokens import Claims
from hpo_ops.ledger.study_identity import is_generic

PLATFORM_DAG = "hpo_reconcile"
"""The id of the reconciler's DAG, whose tasks repair all studies.

People who may edit this DAG may also set the capacities of pools."""


class User(Protocol):
    """A person who has logged in to the platform, with the person's rights on DAGs."""

    @property
    def name(self) -> str:
        """The user name, which is recorded as the owner of studies."""
        ...

    def may_read(self, dag_id: str) -> bool:
        """Checks whether the person may see a DAG and its runs."""
        ...

    def may_edit(self, dag_id: str) -> bool:
        """Checks whether the person may change runs of a DAG."""
        ...

    def may_start(self, dag_id: str) -> bool:
        """Checks whether the person may start runs of a DAG."""
        ...

    def may_operate(self) -> bool:
        """Checks whether the person is an operator, who may change studies of other people."""
        ...


@dataclass(frozen=True)
class Caller:
    """The sender of a request: a task, an agent or a person.

    Methods named `require_…` raise HTTPException 403 if the caller lacks a right.

    Attributes:
        segment: The id of the segment if the caller is a segment's agent, otherwise None.
        user: The person if the caller is a person, otherwise None.
        dag_run: DAG id and run id to which a task's token is limited; None if the caller is not a
            task, or if the token is valid for all DAG runs.
        claims: The verified content of the caller's token; None for a person's login.
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
        """Whether the caller is the reconciler, the triggerer or an operator's script.

        The tokens of these callers are not limited to the study of one DAG run.
        """
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
        """Refuses agents, but not tasks, since tasks may read everything that people may read."""
        if self.segment is not None:
            raise _forbidden("the token of a segment is valid for requests of its agent only")

    # -- studies -----------------------------------------------------------------------------

    def may_read(self, study: OwnedResource) -> bool:
        """Checks whether the caller may see a study.

        People may see the studies of all DAGs that they may see. A task may see the study of its
        DAG run.
        """
        if self.is_task:
            return self._is_task_of(study)
        return self.user is not None and self.user.may_read(study.dag_id)

    def may_edit(self, study: OwnedResource) -> bool:
        """Checks whether the caller may change a study.

        A task may change the study of its DAG run. For people it depends on the DAG: a study with
        a DAG of its own may be changed by everyone who may edit the DAG. A generic DAG runs
        studies of many people. Its studies may be changed by their owner, who needs only the right
        to start the DAG, and by operators who may edit the DAG; studies without an owner may be
        changed by everyone who may edit the DAG.
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
        """Refuses a caller who may not change a study."""
        if self.may_edit(study):
            return
        if self.user is not None and self.user.may_edit(study.dag_id):
            raise _forbidden(
                f"this study of {study.dag_id} belongs to {study.owner}: only they, and people "
                "who may change Airflow's connections, may change it"
            )
        raise _forbidden(f"no right to change {study.dag_id}")

    def require_run(self, dag_id: str, run_id: str) -> None:
        """Refuses a task whose token is limited to a DAG run other than the given DAG run."""
        if self.dag_run is not None and self.dag_run != (dag_id, run_id):
            raise _forbidden(f"this token is not valid for the run {run_id} of {dag_id}")

    def _is_task_of(self, study: OwnedResource) -> bool:
        return self.dag_run is None or self.dag_run == (study.dag_id, study.run_id)

    def may_operate(self) -> bool:
        """Checks whether the caller is an operator or acts for the platform (`is_platform`)."""
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
