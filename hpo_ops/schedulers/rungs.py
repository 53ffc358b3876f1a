"""Rungs: the steps at which successive halving looks at trials."""

from __future__ import annotations

from functools import cache

from hpo_ops.core import Trial


@cache
def rung_steps(min_steps: int, max_steps: int, eta: int) -> tuple[int, ...]:
    """The steps r, r*eta, r*eta**2, ... up to R.

    Counted with integers: a floating-point logarithm loses a rung for some (r, R, eta).

    >>> rung_steps(1, 81, 3)
    (1, 3, 9, 27, 81)
    """
    steps = []
    step = min_steps
    while step <= max_steps:
        steps.append(step)
        step *= eta
    return tuple(steps)


def crossed_rungs(trial: Trial, rungs: tuple[int, ...]) -> tuple[int, ...]:
    """The rungs that the trial's last report was the first to reach or pass, lowest first."""
    if not trial.observations:
        return ()
    step = trial.step
    before = trial.observations[-2].step if len(trial.observations) > 1 else -1
    return tuple(rung for rung in rungs if before < rung <= step)


def next_rung(step: int, rungs: tuple[int, ...], max_steps: int) -> int:
    """The first rung above a step, or the last step of all."""
    return next((rung for rung in rungs if rung > step), max_steps)
