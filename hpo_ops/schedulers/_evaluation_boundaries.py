"""Evaluation boundaries: the steps, at a fixed interval, at which a policy decides on a trial."""

from __future__ import annotations

from functools import lru_cache

from hpo_ops.core import Action, Decision, Trial


def is_at_boundary(trial: Trial, every: int) -> bool:
    """Whether the last report was the first to reach or pass a multiple of ``every`` steps."""
    seen = trial.observations
    if not seen:
        return False
    before = seen[-2].step if len(seen) > 1 else 0
    return seen[-1].step // every > before // every


@lru_cache(maxsize=1024)
def no_boundary(step: int) -> Decision:
    """The decision on a report that reaches no boundary.

    Most reports get this decision, so it is cached.
    """
    return Decision(Action.CONTINUE, f"step {step} is no boundary")


def next_boundary(step: int, every: int, max_steps: int | None) -> int:
    """The first boundary after a step, or the last step of a full-length trial."""
    boundary = (step // every + 1) * every
    return boundary if max_steps is None else min(boundary, max_steps)
