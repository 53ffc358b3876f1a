"""Traces of a few plain trials."""

from __future__ import annotations

from hpo_ops.core import (
    Direction,
)
from hpo_ops.simulator import (
    Traces,
    TrialTrace,
)


def traces_of(*steps: int, seconds: float = 1.0) -> Traces:
    """Trials with so many steps of one second."""
    trials = tuple(
        TrialTrace(tuple(0.1 + step / 100 for step in range(count)), (seconds,) * count)
        for count in steps
    )
    return Traces("small", "accuracy", Direction.MAXIMIZE, trials)
