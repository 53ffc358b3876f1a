"""Comparison of a trial's score in the ledger with the score that its task sent through XCom."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from hpo_ops.core.trial_state import TrialState

TOLERANCE = 1e-9
"""Largest difference, relative or absolute, between two values that are treated as equal."""


class Match(StrEnum):
    """The possible results of `compare_scores`: same, missing or different.

    ``MISSING`` means that the ledger has not received the end of the trial.
    """

    SAME = "same"
    MISSING = "missing"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Score:
    """State and value of a trial, either in the ledger or received through XCom.

    Attributes:
        is_provisional: Whether the gateway did not answer the task, so that state and
            value are those of the trial's last segment, and the ledger may decide otherwise.
    """

    state: TrialState
    value: float | None
    is_provisional: bool = False


def compare_scores(ledger: Score, xcom: Score) -> Match:
    """Compares a trial's scores in the ledger and from XCom after its Airflow task has ended.

    If the trial is still running in the ledger, the message about its end was lost: the score is
    missing in the ledger, unless the score itself says that the trial has not ended. If the trial
    was not finished when its task ended, the scores count as the same, since the ledger may have
    decided on the trial later.
    """
    if ledger.state is TrialState.RUNNING:
        is_open = xcom.state in (TrialState.WAITING, TrialState.RUNNING)
        return Match.SAME if is_open else Match.MISSING
    if not xcom.state.is_finished:
        return Match.SAME
    if xcom.is_provisional:
        is_same = (ledger.state is TrialState.FAILED) is (xcom.state is TrialState.FAILED)
    else:
        is_same = ledger.state is xcom.state and _is_same(ledger.value, xcom.value)
    return Match.SAME if is_same else Match.DIFFERENT


def _is_same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def disagreement(trial: str, *, ledger: Score, xcom: Score) -> str:
    """Returns a sentence with the trial's different states and values in ledger and XCom."""
    return (
        f"{trial} is {ledger.state} with the value {ledger.value} in the ledger, but "
        f"{xcom.state} with {xcom.value} by XCom; the ledger counts"
    )
