"""Which studies may use the trials, scores and checkpoints of each other.

All runs of a DAG of one study share: everybody with rights on the DAG may read each of them. A
generic DAG has studies of many people, so there only studies of the same person share. Studies
of two DAGs share if the same person triggered both, or if each of them names the other's DAG
under ``share``: one side alone could pry into the other, or feed it false scores.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from sqlalchemy import ColumnElement, and_, false, or_
from sqlalchemy.dialects.postgresql import array

from hpo_ops.ledger._schema import studies
from hpo_ops.ledger.study_identity import is_generic

EVERYONE = "*"
"""Stands for all DAGs under ``share``."""


class Sharer(Protocol):
    """The attributes of a study by which it is decided with which studies it shares."""

    @property
    def dag_id(self) -> str:
        """Its DAG."""
        ...

    @property
    def owner(self) -> str | None:
        """The person who triggered it; None where nobody did, as for a schedule."""
        ...

    @property
    def share(self) -> Collection[str]:
        """DAGs with which it shares."""
        ...


def may_share(one: Sharer, other: Sharer) -> bool:
    """Whether two studies may use each other's trials. It is the same both ways round."""
    if one.dag_id == other.dag_id and (not is_generic(one.dag_id) or one.owner == other.owner):
        return True
    if one.owner is not None and one.owner == other.owner:
        return True
    return _names(one, other.dag_id) and _names(other, one.dag_id)


def _names(study: Sharer, dag_id: str) -> bool:
    return EVERYONE in study.share or dag_id in study.share


def shares_with(study: Sharer) -> ColumnElement[bool]:
    """`may_share` as a condition on rows of the table of studies."""
    same_dag = studies.c.dag_id == study.dag_id
    if is_generic(study.dag_id):
        same_dag = and_(same_dag, studies.c.owner.is_not_distinct_from(study.owner))
    same_owner = false() if study.owner is None else studies.c.owner == study.owner
    named = studies.c.share.has_any(array([study.dag_id, EVERYONE]))
    if EVERYONE not in study.share:
        named = and_(named, studies.c.dag_id.in_(list(study.share)))
    return or_(same_dag, same_owner, named)
