"""Rules for which studies may use each other's trials, scores and checkpoints.

Studies of the same DAG share, because everybody with access to the DAG may read all of its runs. A
generic DAG runs studies of many people, so that only its studies of the same owner share. Studies
of different DAGs share if they have the same owner, or if each study lists the other study's DAG
under ``share``. Consent of one side is not enough: that side could read the other side's results
or supply it with false scores.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from sqlalchemy import ColumnElement, and_, false, or_
from sqlalchemy.dialects.postgresql import array

from hpo_ops.ledger._schema import studies
from hpo_ops.ledger.study_identity import is_generic

EVERYONE = "*"
"""Entry of ``share`` that stands for all DAGs."""


class Sharer(Protocol):
    """Interface: the attributes of a study that decide with which studies it shares trials."""

    @property
    def dag_id(self) -> str:
        """Id of the study's DAG."""
        ...

    @property
    def owner(self) -> str | None:
        """The person who triggered the study; None if it was triggered automatically."""
        ...

    @property
    def share(self) -> Collection[str]:
        """Ids of the DAGs with whose studies the study shares its trials."""
        ...


def may_share(one: Sharer, other: Sharer) -> bool:
    """Returns whether two studies may use each other's trials; the order does not matter."""
    if one.dag_id == other.dag_id and (not is_generic(one.dag_id) or one.owner == other.owner):
        return True
    if one.owner is not None and one.owner == other.owner:
        return True
    return _names(one, other.dag_id) and _names(other, one.dag_id)


def _names(study: Sharer, dag_id: str) -> bool:
    return EVERYONE in study.share or dag_id in study.share


def shares_with(study: Sharer) -> ColumnElement[bool]:
    """Returns the SQL condition that selects the studies with which a study may share trials.

    The condition applies the rule of `may_share` to rows of the table `studies`.
    """
    same_dag = studies.c.dag_id == study.dag_id
    if is_generic(study.dag_id):
        same_dag = and_(same_dag, studies.c.owner.is_not_distinct_from(study.owner))
    same_owner = false() if study.owner is None else studies.c.owner == study.owner
    named = studies.c.share.has_any(array([study.dag_id, EVERYONE]))
    if EVERYONE not in study.share:
        named = and_(named, studies.c.dag_id.in_(list(study.share)))
    return or_(same_dag, same_owner, named)
