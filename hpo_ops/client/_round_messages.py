"""Rounds of a study: the trials that a round runs, and their results."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpo_ops.client._trial_results import TrialResult
from hpo_ops.protocol import Message, ParamValue


@dataclass(frozen=True, kw_only=True)
class PlannedTrial(Message):
    """A trial that a round runs.

    Attributes:
        params: Its hyperparameters.
        until_step: The last step to train in this round; None to train to the end.
    """

    trial: int
    params: dict[str, ParamValue]
    until_step: int | None = None


@dataclass(frozen=True, kw_only=True)
class Round(Message):
    """The trials of a round, and why the scheduler picked them."""

    number: int
    trials: list[PlannedTrial]
    reason: str


@dataclass(frozen=True, kw_only=True)
class AbsorbedScores(Message):
    """The comparison of scores that came by XCom with the ledger.

    Attributes:
        absorbed: Trials whose end the ledger did not know and took from XCom.
        disagreements: A sentence for each trial whose XCom and ledger differ; the ledger counts.
    """

    absorbed: list[int] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class CollectedRound(Message):
    """The results of a round.

    Attributes:
        results: The result of each trial of the round, as the ledger has it now.
        scores: The comparison with the scores that came by XCom.
    """

    number: int
    results: list[TrialResult]
    scores: AbsorbedScores = field(default_factory=AbsorbedScores)
