"""Default: every trial runs to its full length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hpo_ops.core import Action, Decision, Study, Trial, TrialGroup
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.schedulers.slot_filling import fill_slots

RUNS_TO_ITS_END = Decision(Action.CONTINUE, "every trial runs to its end")


@dataclass(frozen=True, kw_only=True)
class Default:
    """Starts a trial on every free slot, and neither pauses nor stops any trial.

    The Default policy of HyperDrive (Rasley et al., Middleware 2017): plain random search with
    full-length trials.

    Example:
        >>> from hpo_ops.core import Goal, Study
        >>> len(Default(max_steps=10).next(Study(Goal(trials=5)), free=3, now=0.0))
        3

    Attributes:
        max_steps: Steps of a full-length trial; None if the training code decides.
    """

    pauses: ClassVar[bool] = False
    copies: ClassVar[bool] = False
    rungs: ClassVar[tuple[int, ...] | None] = ()
    forecast_every: ClassVar[int | None] = None

    max_steps: int | None = None

    def __post_init__(self) -> None:
        if self.max_steps is not None:
            check_at_least("max_steps", self.max_steps, 1)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        return fill_slots(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        return RUNS_TO_ITS_END
