"""Messages about the rounds of a study; a round is a batch of trials with a barrier after it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpo_ops.client._trial_results import TrialResult
from hpo_ops.protocol import Message, ParamValue


@dataclass(frozen=True, kw_only=True)
class PlannedTrial(Message):
    """A trial that is to run in a round.

    Attributes:
        trial: Number of the trial.
        params: Hyperparameters of the trial.
        until_step: The last step to train in this round; None to train to the end.
    """

    trial: int
    params: dict[str, ParamValue]
    until_step: int | None = None


@dataclass(frozen=True, kw_only=True)
class Round(Message):
    """A round: a batch of trials to run, and the reason why the scheduler selected them."""

    number: int
    trials: list[PlannedTrial]
    reason: str


@dataclass(frozen=True, kw_only=True)
class AbsorbedScores(Message):
    """The outcome of comparing trial results received through XCom with the ledger.

    Attributes:
        absorbed: Numbers of the trials whose end was missing in the ledger and was recorded from
            XCom.
        disagreements: A sentence for each trial whose result in XCom differs from the ledger; the
            ledger's result remains valid.
    """

    absorbed: list[int] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class CollectedRound(Message):
    """The results of a round (a batch of trials with a barrier after it).

    Attributes:
        number: Number of the round.
        results: The result of each trial of the round, as recorded in the ledger.
        scores: The comparison of the ledger with the results received through XCom.
    """

    number: int
    results: list[TrialResult]
    scores: AbsorbedScores = field(default_factory=AbsorbedScores)
