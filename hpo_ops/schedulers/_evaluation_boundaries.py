"""Evaluation boundaries: the steps, at a fixed interval, at which a policy decides on a trial."""

from __future__ import annotations

from functools import lru_cache

from hpo_ops.core import Action, Decision, Trial


def is_at_boundary(trial: Trial, every: int) -> bool:
    """Checks whether a trial reached or passed a multiple of ``every`` with its last report."""
    seen = trial.observations
    if not seen:
        return False
    before = seen[-2].step if len(seen) > 1 else 0
    return seen[-1].step // every > before // every


@lru_cache(maxsize=1024)
def no_boundary(step: int) -> Decision:
    """Returns the decision to continue a trial whose report at ``step`` reaches no boundary.

    The decision is cached, since most reports reach no boundary.
    """
    return Decision(Action.CONTINUE, f"step {step} is no boundary")


def next_boundary(step: int, every: int, max_steps: int | None) -> int:
    """Returns the first multiple of ``every`` after a step, but at most ``max_steps``."""
    boundary = (step // every + 1) * every
    return boundary if max_steps is None else min(boundary, max_steps)
