"""Percentile: stops a trial whose best score is below a percentile of completed trials' scores."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from hpo_ops.core import Decision, Direction, Ranking, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.decisions import CONTINUE, STOP
from hpo_ops.core.policy_options import check_at_least, check_between
from hpo_ops.schedulers.slot_filling import fill_slots


class Cutoff(NamedTuple):
    """The score that a trial must have reached at a step in order to continue.

    Attributes:
        trials: Number of completed trials that reported at the step.
        score: The lowest score with which a trial continues; None if ``trials`` is 0.
        text: Description of the cutoff, as a value of the metric, for the reasons of decisions.
    """

    trials: int
    score: float | None
    text: str


class CompletedIndex:
    """Index of the scores of completed trials at each step."""

    def __init__(self) -> None:
        self.trials = 0
        self._rankings: dict[int, Ranking] = defaultdict(Ranking)
        self._cutoffs: dict[tuple[int, float], Cutoff] = {}
        """Cached cutoffs by step and percentile; cleared whenever a trial completes."""

    def cutoff(self, step: int, percentile: float, direction: Direction) -> Cutoff:
        """Returns the score that the best ``percentile`` % of completed trials have at a step."""
        cutoff = self._cutoffs.get((step, percentile))
        if cutoff is None:
            cutoff = self._make_cutoff(step, percentile, direction)
            self._cutoffs[step, percentile] = cutoff
        return cutoff

    def _make_cutoff(self, step: int, percentile: float, direction: Direction) -> Cutoff:
        ranking = self._rankings[step]
        count = len(ranking)
        if not count:
            return Cutoff(0, None, "no cutoff")
        score = ranking.quantile(1 - percentile / 100)
        origin = f"the best {percentile:g} % of {count} completed trials at step {step}"
        return Cutoff(count, score, f"the cutoff {direction.to_value(score):g} of {origin}")

    def reported(self, trial: Trial, before: int) -> None:
        """Does nothing: the scores of a trial are added when the trial completes."""

    def moved(self, trial: Trial, before: TrialState) -> None:
        if trial.state is TrialState.COMPLETED and before is not TrialState.COMPLETED:
            self.trials += 1
            self._cutoffs.clear()
            for seen in trial.observations:
                self._rankings[seen.step].add(seen.score)


def is_first_in_interval(trial: Trial, warmup: int, interval: int) -> bool:
    """Checks whether a trial reached or passed a comparison step with its last report.

    The comparison steps are ``warmup`` plus the multiples of ``interval``.
    """
    seen = trial.observations
    step = seen[-1].step
    judged = (step - warmup) // interval * interval + warmup
    before = seen[-2].step if len(seen) > 1 else -1
    return step >= warmup and before < judged


@dataclass(frozen=True, kw_only=True)
class Percentile:
    """Stops a trial below a percentile of the completed trials' scores at the same step.

    The trial is compared by its best score.

    Optuna's percentile pruner (https://optuna.readthedocs.io), after the median rule of Golovin
    et al., "Google Vizier", KDD 2017. A stopped trial cannot be resumed; its checkpoints may be
    deleted.

    Departures: none. The option ``max_steps`` is added, which limits the steps of a trial.

    Example:
        >>> Percentile(percentile=25.0, max_steps=20).n_startup_trials
        5

    Attributes:
        percentile: A trial continues if its best score is within the best ``percentile`` % of the
            completed trials' scores at the same step.
        n_startup_trials: Number of trials that must complete before any trial is stopped.
        n_warmup_steps: Steps that every trial may train before it is compared.
        interval_steps: Steps between two comparisons.
        n_min_trials: Number of completed trials that must have reported at the step.
        max_steps: Steps of a full-length trial; None if the training code decides.
    """

    pauses: ClassVar[bool] = False
    copies: ClassVar[bool] = False
    rungs: ClassVar[tuple[int, ...] | None] = None
    forecast_every: ClassVar[int | None] = None

    percentile: float
    n_startup_trials: int = 5
    n_warmup_steps: int = 0
    interval_steps: int = 1
    n_min_trials: int = 1
    max_steps: int | None = None

    def __post_init__(self) -> None:
        check_between("percentile", self.percentile, 0, 100)
        check_at_least("n_startup_trials", self.n_startup_trials, 0)
        check_at_least("n_warmup_steps", self.n_warmup_steps, 0)
        check_at_least("interval_steps", self.interval_steps, 1)
        check_at_least("n_min_trials", self.n_min_trials, 1)
        if self.max_steps is not None:
            check_at_least("max_steps", self.max_steps, 1)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        return fill_slots(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        completed = study.index("completed", CompletedIndex)
        if completed.trials < max(self.n_startup_trials, 1):
            count = max(self.n_startup_trials, 1)
            return Decision(CONTINUE, f"fewer than {count} trials have completed")
        if not is_first_in_interval(trial, self.n_warmup_steps, self.interval_steps):
            return Decision(CONTINUE, f"trials are not compared at step {trial.step}")
        direction = study.goal.direction
        count, cutoff, text = completed.cutoff(trial.step, self.percentile, direction)
        if cutoff is None or count < self.n_min_trials:
            return Decision(
                CONTINUE,
                f"fewer than {self.n_min_trials} completed trials have reported at step "
                f"{trial.step}",
            )
        best = -math.inf if trial.best_score is None else trial.best_score
        value = direction.to_value(best)
        if best < cutoff:
            return Decision(STOP, f"best value {value:g} is worse than {text}")
        return Decision(CONTINUE, f"best value {value:g} is not worse than {text}")
