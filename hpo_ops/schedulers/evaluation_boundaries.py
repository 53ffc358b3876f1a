"""Evaluation boundaries: every so many steps a policy looks at a trial."""

from __future__ import annotations

from functools import lru_cache

from hpo_ops.core import Action, Decision, Trial


def is_at_boundary(trial: Trial, every: int) -> bool:
    """Whether the last report was the first to reach or pass a multiple of so many steps."""
    seen = trial.observations
    if not seen:
        return False
    before = seen[-2].step if len(seen) > 1 else 0
    return seen[-1].step // every > before // every


@lru_cache(maxsize=1024)
def no_boundary(step: int) -> Decision:
    """The answer to a report that reaches no boundary; most are like that, so it is made once."""
    return Decision(Action.CONTINUE, f"no boundary at step {step}")


def next_boundary(step: int, every: int, max_steps: int | None) -> int:
    """The first boundary above a step, or the last step of all."""
    boundary = (step // every + 1) * every
    return boundary if max_steps is None else min(boundary, max_steps)
