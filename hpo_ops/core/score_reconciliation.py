"""Comparison of a trial's score in the ledger with the one that its task handed on by XCom."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from hpo_ops.core.trial_state import TrialState

TOLERANCE = 1e-9
"""Relative difference up to which two values are the same."""


class Match(StrEnum):
    """How a score by XCom relates to the ledger's."""

    SAME = "same"
    MISSING = "missing"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Score:
    """State and value of a trial, as one of the two sides has it.

    Attributes:
        is_provisional: The score is what a task knew by itself when the gateway did not answer:
            the value of the last segment, and a state that the ledger decides anew.
    """

    state: TrialState
    value: float | None
    is_provisional: bool = False


def compare_scores(ledger: Score, xcom: Score) -> Match:
    """Compares the score of a trial whose task has ended.

    A trial that the ledger still has as running has lost the message about its end: its score is
    missing there. A trial that was paused when its task ended may have been judged since.
    """
    if ledger.state is TrialState.RUNNING:
        return Match.SAME if xcom.state is TrialState.RUNNING else Match.MISSING
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
    """The sentence about a trial whose two scores differ."""
    return (
        f"{trial} is {ledger.state} with the value {ledger.value} in the ledger, but "
        f"{xcom.state} with {xcom.value} by XCom; the ledger counts"
    )
