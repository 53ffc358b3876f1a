"""Rounds: samples the trials of a round, and closes the round when its trials have run.

A round is a batch of trials that are sampled together. The barrier at its end is the point at
which all trials of the round have finished or are paused. The tasks `sample` and `collect` of a
DAG use this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpo_ops.client import AbsorbedScores, CollectedRound, PlannedTrial, Round, TrialResult
from hpo_ops.config.round_planning import trials_per_round
from hpo_ops.core import TrialState
from hpo_ops.gateway.services import _live_slots, _score_absorption, _study_transitions
from hpo_ops.gateway.services._trial_result_message import trial_result
from hpo_ops.gateway.services.proposals import Proposals
from hpo_ops.ledger import Ledger, StudyTransaction


@dataclass(frozen=True)
class RoundService:
    """Samples and collects the rounds of studies. All methods are idempotent."""

    ledger: Ledger
    proposals: Proposals

    def sample(self, study_id: int, round_number: int, rounds_left: int = 1_000_000) -> Round:
        """Chooses the trials of a round with the scheduler, and samples their parameters.

        Args:
            study_id: The study.
            round_number: The round's number. A round that was sampled before keeps its trials.
            rounds_left: The number of rounds left in the DAG, including the sampled round. The
                round is enlarged if the remaining trials would not fit into these rounds.
        """
        with self.ledger.study(study_id) as session:
            row = session.rounds.find(round_number)
            if row is None:
                left = session.view.unstarted + len(session.view.in_state(TrialState.PAUSED))
                size = max(
                    trials_per_round(session.record.config), -(-left // max(rounds_left, 1))
                )
                numbers, reason = _live_slots.fill_slots(session, size)
                session.rounds.add(round_number, numbers, reason)
            else:
                numbers, reason = list(row.members), row.reason
        with self.proposals.proposed(study_id, numbers) as session:
            rows = session.trials.select(numbers)
        planned = [
            PlannedTrial(
                trial=number,
                params=dict(rows[number].params or {}),
                until_step=rows[number].until_step,
            )
            for number in numbers
        ]
        return Round(number=round_number, trials=planned, reason=reason)

    def collect(
        self, study_id: int, round_number: int, scores: Sequence[TrialResult]
    ) -> CollectedRound:
        """Closes a round: records missing results, fails running trials, and tells the sampler.

        A round that was closed before is not changed.

        Args:
            study_id: The study.
            round_number: The round's number.
            scores: The results of the round's trials, as their tasks passed them through XCom.

        Raises:
            LookupError: The round was never sampled.
            ValueError: A score belongs to a trial that is not in the round.
        """
        compared = AbsorbedScores()
        with self.ledger.study(study_id) as session:
            row = session.rounds.find(round_number)
            if row is None:
                raise LookupError(f"round {round_number} was never sampled")
            numbers = row.members
            if unknown := {score.trial for score in scores} - set(numbers):
                raise ValueError(f"round {round_number} has no trials {sorted(unknown)}")
            if not row.is_collected:
                compared = _score_absorption.absorb(session, scores)
                _close_round(session, numbers)
                session.rounds.mark_collected(round_number)
        with self.proposals.proposed(study_id, []) as session:
            rows = session.trials.select(numbers)
        return CollectedRound(
            number=round_number,
            results=[trial_result(rows[number]) for number in numbers],
            scores=compared,
        )


def _close_round(session: StudyTransaction, numbers: Sequence[int]) -> None:
    """Fails the trials of a round that are still RUNNING, since all tasks of the round have ended.

    In a reproducible study (`reproducible: true`), the scheduler then decides on the paused
    trials of the round.
    """
    for number in numbers:
        _study_transitions.fail_without_task(session, number)
    if session.record.config.reproducible:
        _study_transitions.judge_at_barrier(session, numbers)
