"""Evaluation boundaries: every so many steps a policy looks at a trial."""

from __future__ import annotations

from hpo_ops.core import Trial


def is_at_boundary(trial: Trial, every: int) -> bool:
    """Whether the last report was the first to reach or pass a multiple of so many steps."""
    seen = trial.observations
    if not seen:
        return False
    before = seen[-2].step if len(seen) > 1 else 0
    return seen[-1].step // every > before // every


def next_boundary(step: int, every: int, max_steps: int | None) -> int:
    """The first boundary above a step, or the last step of all."""
    boundary = (step // every + 1) * every
    return boundary if max_steps is None else min(boundary, max_steps)
