"""Percentile: stops a trial whose best is worse than a percentile of whole trials."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from hpo_ops.core import Decision, Ranking, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.decisions import CONTINUE, STOP
from hpo_ops.core.policy_options import check_at_least, check_between
from hpo_ops.schedulers.slot_filling import fill_places


class Bar(NamedTuple):
    """What a trial has to come up to at a step.

    Attributes:
        among: Whole trials that reported at the step.
        cut: The least score that is good enough; None without such trials.
        text: The cut and where it comes from.
    """

    among: int
    cut: float | None
    text: str


class CompletedIndex:
    """Scores of completed trials at each step, kept up with the study."""

    def __init__(self) -> None:
        self.trials = 0
        self._rankings: dict[int, Ranking] = defaultdict(Ranking)
        self._bars: dict[tuple[int, float], Bar] = {}
        """Bars that were asked for since a trial was completed."""

    def bar(self, step: int, percentile: float) -> Bar:
        """The percentile of the scores that completed trials reported at exactly this step."""
        bar = self._bars.get((step, percentile))
        if bar is None:
            bar = self._bars[step, percentile] = self._make_bar(step, percentile)
        return bar

    def _make_bar(self, step: int, percentile: float) -> Bar:
        ranking = self._rankings[step]
        among = len(ranking)
        if not among:
            return Bar(0, None, "no bar")
        cut = ranking.quantile(1 - percentile / 100)
        place = f"the best {percentile:g} % of {among} whole trials at step {step}"
        return Bar(among, cut, f"{cut:g}, {place}")

    def reported(self, trial: Trial, before: int) -> None:
        """Nothing: a trial counts once it is whole."""

    def moved(self, trial: Trial, before: TrialState) -> None:
        if trial.state is TrialState.COMPLETED and before is not TrialState.COMPLETED:
            self.trials += 1
            self._bars.clear()
            for seen in trial.observations:
                self._rankings[seen.step].add(seen.score)


def is_first_in_interval(trial: Trial, warmup: int, interval: int) -> bool:
    """Whether the last report is the first since a step at which trials are judged."""
    seen = trial.observations
    step = seen[-1].step
    judged = (step - warmup) // interval * interval + warmup
    before = seen[-2].step if len(seen) > 1 else -1
    return step >= warmup and before < judged


@dataclass(frozen=True, kw_only=True)
class Percentile:
    """Stops a trial whose best score so far is below a percentile of whole trials' at that step.

    Optuna's percentile pruner (https://optuna.readthedocs.io), after the median rule of Golovin
    et al., "Google Vizier", KDD 2017.

    Departures: none; ``max_steps`` is added, since we tell a trial how far it may train.

    Example:
        >>> Percentile(percentile=25.0, max_steps=20).n_startup_trials
        5

    Attributes:
        percentile: The best so many percent of whole trials' scores are good enough.
        n_startup_trials: Whole trials before any is stopped.
        n_warmup_steps: Steps of a trial before it is judged.
        interval_steps: Steps between two judgements.
        n_min_trials: Whole trials that must have reported at the step.
        max_steps: Steps of a whole trial; None where the training code decides.
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
        return fill_places(study, free, lambda _: self.max_steps)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        completed = study.index("completed", CompletedIndex)
        if completed.trials < max(self.n_startup_trials, 1):
            count = max(self.n_startup_trials, 1)
            return Decision(CONTINUE, f"fewer than {count} whole trials")
        if not is_first_in_interval(trial, self.n_warmup_steps, self.interval_steps):
            return Decision(CONTINUE, f"no judgement at step {trial.step}")
        among, cut, text = completed.bar(trial.step, self.percentile)
        if cut is None or among < self.n_min_trials:
            return Decision(
                CONTINUE,
                f"fewer than {self.n_min_trials} whole trials at step {trial.step}",
            )
        best = -math.inf if trial.best_score is None else trial.best_score
        if best < cut:
            return Decision(STOP, f"best {best:g} is below {text}")
        return Decision(CONTINUE, f"best {best:g} is not below {text}")
