"""Cross-validation: a trial is trained in K folds, each with another part of the data held out.

Each fold is scheduled as a trial of its own: fold f of trial c has the number c * K + f, so that
folds occupy slots, pause and resume as trials do. Results are compared in the study that
`by_trial` returns, whose trials are aggregated: each has the mean of its folds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from hpo_ops.core._study_view import Direction, Goal, Study
from hpo_ops.core.trial_state import Trial, TrialState

Curve = Mapping[int, float]
"""Reported values by step."""

_UNDECIDED = (TrialState.RUNNING, TrialState.PAUSED)
_DRAWS = 9_999
"""Number of sign vectors that Wilcoxon's test tries; with 13 folds or fewer it tries all."""


@dataclass(frozen=True)
class Averaged:
    """The aggregated result of the folds of a trial.

    Attributes:
        step: The step at which the mean of the folds' curves is best.
        mean: Mean of the folds' values at that step.
        deviation: Sample standard deviation (n - 1) of the values; None for a single fold.
        values: The value of each fold at that step.
    """

    step: int
    mean: float
    deviation: float | None
    values: tuple[float, ...]


def average(curves: Sequence[Curve]) -> dict[int, float]:
    """Returns the mean of several learning curves, at the steps that all curves have.

    >>> average([{1: 0.5, 2: 0.75}, {1: 1.0, 2: 0.25, 3: 0.9}])
    {1: 0.75, 2: 0.5}
    """
    if not curves:
        return {}
    shared = set(curves[0]).intersection(*curves[1:])
    return {step: fmean(curve[step] for curve in curves) for step in sorted(shared)}


def summarise(curves: Sequence[Curve], direction: Direction) -> Averaged | None:
    """Returns the aggregated result of folds, at the best step of their mean learning curve.

    Of equally good steps, the first is chosen. Returns None if the curves have no common step.

    >>> summarise([{1: 0.5, 2: 0.75}, {1: 1.0, 2: 0.25}], Direction.MAXIMIZE).step
    1
    """
    means = average(curves)
    if not means:
        return None
    step = max(means, key=lambda step: (direction.to_score(means[step]), -step))
    values = tuple(curve[step] for curve in curves)
    return Averaged(step, means[step], stdev(values) if len(values) > 1 else None, values)


def state_of(states: Sequence[TrialState], count: int) -> TrialState:
    """Returns the state of an aggregated trial, derived from the states of its folds.

    Args:
        states: The states of the trial's folds that exist so far.
        count: Number of folds of a trial.
    """
    if len(states) == count and all(state.is_finished for state in states):
        for state in (TrialState.FAILED, TrialState.PRUNED):
            if state in states:
                return state
        return TrialState.COMPLETED
    return next((state for state in _UNDECIDED if state in states), TrialState.WAITING)


def folds_needed(p: float) -> int:
    """Returns how many completed folds Wilcoxon's test needs for a p-value below ``p``.

    >>> folds_needed(0.1)
    4
    """
    return math.floor(math.log2(1 / p)) + 1


def chance_of_no_worse(
    own: Mapping[int, Curve], best: Mapping[int, Curve], direction: Direction
) -> float:
    """Returns the p-value of the null hypothesis that a trial is no worse than the best trial.

    The test is Wilcoxon's signed-rank test, one-sided. The trial's folds are paired with the same
    folds of the best trial, each trial at the best step of its own mean curve. The p-value is 1 if
    the trial's mean is as good as that of the best trial, or if fewer than two folds are compared.

    Args:
        own: The learning curves of the trial's completed folds, by index of the fold.
        best: The learning curves of all folds of the best trial, by index of the fold.
        direction: The direction of the metric.
    """
    folds = sorted(own)
    mine = summarise([own[fold] for fold in folds], direction)
    theirs = summarise(list(best.values()), direction)
    if mine is None or theirs is None:
        return 1.0
    behind = [
        direction.to_score(best[fold][theirs.step]) - direction.to_score(value)
        for fold, value in zip(folds, mine.values, strict=True)
    ]
    if len(behind) < 2 or fmean(behind) <= 0:
        return 1.0
    from scipy.stats import PermutationMethod, wilcoxon  # takes a second to import

    # Exact, since the normal approximation is wrong for few folds.
    exact = PermutationMethod(n_resamples=_DRAWS, rng=0)
    return float(wilcoxon(behind, alternative="greater", method=exact).pvalue)


def folds_of(study: Study, number: int) -> dict[int, Trial]:
    """Returns the folds of a trial that exist so far, by the index of the fold."""
    count = study.goal.folds
    mine = study.trials[number * count : (number + 1) * count]
    return {fold: trial for fold, trial in enumerate(mine) if not trial.is_retraining}


def curve_of(trial: Trial, direction: Direction) -> dict[int, float]:
    """Returns the learning curve of a trial: its reported values of the objective, by step."""
    return {seen.step: direction.to_value(seen.score) for seen in trial.observations}


def reason_to_prune(study: Study, number: int, p: float) -> str | None:
    """Returns why the remaining folds of a trial need not be trained, or None to train them.

    Args:
        study: The study whose trials are folds.
        number: Number of the aggregated trial.
        p: p-value below which the trial is considered worse than the best trial.
    """
    direction = study.goal.direction
    best = by_trial(study).best
    own = {
        fold: curve_of(trial, direction)
        for fold, trial in folds_of(study, number).items()
        if trial.state is TrialState.COMPLETED
    }
    if best is None or not folds_needed(p) <= len(own) < study.goal.folds:
        return None
    others = folds_of(study, best.number)
    theirs = {fold: curve_of(trial, direction) for fold, trial in others.items()}
    chance = chance_of_no_worse(own, theirs, direction)
    if chance >= p:
        return None
    return (
        f"worse than trial {best.number} in {len(own)} of {study.goal.folds} folds "
        f"(Wilcoxon: p = {chance:.3g}, below {p:g})"
    )


def by_trial(study: Study) -> Study:
    """Returns a study of aggregated trials, or the given study if it has no folds.

    The state of an aggregated trial follows from the states of its folds. A completed aggregated
    trial has the mean curve of its folds as its reports. Other aggregated trials have no reports,
    since means over fewer folds cannot be compared.
    """
    if study.goal.folds == 1:
        return study
    index = study.index("by trial", lambda: _ByTrial(study.goal))
    index.study.goal = study.goal.by_trial()
    return index.study


class _ByTrial:
    """Index that holds a study of aggregated trials, updated when a fold changes its state."""

    def __init__(self, goal: Goal) -> None:
        self.study = Study(goal.by_trial())
        self._direction = goal.direction
        self._count = goal.folds
        self._folds: list[dict[int, Trial]] = []

    def reported(self, trial: Trial, before: int) -> None:
        pass

    def moved(self, trial: Trial, before: TrialState) -> None:
        if trial.is_retraining:
            return
        number, fold = divmod(trial.number, self._count)
        while len(self._folds) <= number:
            self._folds.append({})
            self.study.add()
        folds = self._folds[number]
        folds[fold] = trial
        aggregated = self.study.trials[number]
        aggregated.params = trial.params
        state = state_of([trial.state for trial in folds.values()], self._count)
        if state is aggregated.state:
            return
        if state is TrialState.COMPLETED:
            curves = [curve_of(trial, self._direction) for trial in folds.values()]
            for step, mean in average(curves).items():
                self.study.record(number, step, mean)
        self.study.move(number, state)
