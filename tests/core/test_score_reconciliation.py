from __future__ import annotations

import pytest

from hpo_ops.core import TrialState
from hpo_ops.core.score_reconciliation import Match, Score, compare_scores

WAITING, RUNNING, PAUSED = TrialState.WAITING, TrialState.RUNNING, TrialState.PAUSED
COMPLETED, PRUNED, FAILED = TrialState.COMPLETED, TrialState.PRUNED, TrialState.FAILED


@pytest.mark.parametrize(
    ("ledger", "xcom", "match"),
    [
        (Score(COMPLETED, 0.5), Score(COMPLETED, 0.5), Match.SAME),
        (Score(COMPLETED, 0.5), Score(COMPLETED, 0.5 + 1e-12), Match.SAME),
        (Score(FAILED, None), Score(FAILED, None), Match.SAME),
        (Score(PRUNED, 0.5), Score(PAUSED, 0.5), Match.SAME),  # judged after its task had ended
        (Score(RUNNING, 0.4), Score(COMPLETED, 0.5), Match.MISSING),
        (Score(RUNNING, None), Score(PAUSED, 0.5), Match.MISSING),
        (Score(RUNNING, None), Score(RUNNING, None), Match.SAME),
        (Score(RUNNING, None), Score(WAITING, None), Match.SAME),  # nothing to absorb
        (Score(FAILED, 0.5), Score(COMPLETED, 0.5), Match.DIFFERENT),
        (Score(COMPLETED, 0.5), Score(COMPLETED, 0.6), Match.DIFFERENT),
        (Score(COMPLETED, None), Score(COMPLETED, 0.6), Match.DIFFERENT),
    ],
)
def test_a_score_by_xcom_is_the_same_missing_or_different(
    ledger: Score, xcom: Score, match: Match
) -> None:
    assert compare_scores(ledger, xcom) is match


@pytest.mark.parametrize(
    ("state", "match"), [(PRUNED, Match.SAME), (COMPLETED, Match.SAME), (FAILED, Match.DIFFERENT)]
)
def test_a_provisional_score_differs_only_by_failure(state: TrialState, match: Match) -> None:
    provisional = Score(COMPLETED, 0.5, is_provisional=True)
    assert compare_scores(Score(state, 0.9), provisional) is match
