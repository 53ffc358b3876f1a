"""The remaining work of each trial of a group, as training time on one unit (such as a GPU)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from hpo_ops.core import Member, Study, Trial


class Work(NamedTuple):
    """A trial's remaining work: the steps that are left, and the seconds per step on one unit."""

    member: Member
    trial: Trial
    steps: int
    step_seconds: float

    @property
    def seconds(self) -> float:
        """The remaining training time on one unit (h in the Fluid paper)."""
        return self.steps * self.step_seconds


def trials_of(study: Study, members: Sequence[Member]) -> list[Trial]:
    """Looks up the trials of a study to which the members of a trial group refer.

    Raises:
        ValueError: A member is a new trial that has not been added to the study and has no number.
    """
    numbers = [member.trial for member in members if member.trial is not None]
    if len(numbers) < len(members):
        raise ValueError("a member of the group is new, but must be added to the study first")
    return [study.trials[number] for number in numbers]


def work_of(study: Study, members: Sequence[Member]) -> list[Work]:
    """Returns the remaining work of each member of a trial group.

    A trial that has not reported yet is assumed to have the mean step time of the other trials, or
    one second per step if no trial has reported. A member without a last step (``until_step`` is
    None) is assumed to have one step left.
    """
    trials = trials_of(study, members)
    timings = [trial.unit_step_seconds for trial in trials]
    known = [timing for timing in timings if timing]
    usual = sum(known) / len(known) if known else 1.0
    work = []
    for member, trial, timing in zip(members, trials, timings, strict=True):
        steps = (member.until_step or trial.step + 1) - trial.step
        work.append(Work(member, trial, steps if steps > 0 else 1, timing or usual))
    return work


def exact(work: Sequence[Work]) -> list[int]:
    """Returns integers in the exact proportions of the trials' remaining training times."""
    seconds = on_one_scale([item.step_seconds for item in work])
    return [item.steps * amount for item, amount in zip(work, seconds, strict=True)]


def on_one_scale(amounts: Sequence[Fraction | float]) -> list[int]:
    """Converts amounts to integers in the same proportions.

    >>> on_one_scale([0.5, 3, 0.25])
    [2, 12, 1]
    """
    ratios = [amount.as_integer_ratio() for amount in amounts]
    scale = math.lcm(*[below for _, below in ratios])
    return [above * (scale // below) for above, below in ratios]
