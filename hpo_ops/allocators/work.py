"""What there is to do: the work of each trial of a group."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hpo_ops.core import Member, Study, Trial, TrialGroup


def trials_of(study: Study, group: TrialGroup) -> list[Trial]:
    """The trials of a group.

    Raises:
        ValueError: A member has no number: new trials are added to the study first.
    """
    return [study.trials[_number(member)] for member in group.members]


def _number(member: Member) -> int:
    if member.trial is None:
        raise ValueError("a member of the group is new, but must be added to the study first")
    return member.trial


def work_of(study: Study, members: Sequence[Member]) -> list[Fraction]:
    """Remaining steps times the time of a step on one unit, for each member (Fluid's h).

    A trial without a timing takes the mean of the others; without any the steps alone count, and
    one is left where nobody knows how many.
    """
    trials = [study.trials[_number(member)] for member in members]
    timings = [trial.unit_step_seconds for trial in trials]
    known = [timing for timing in timings if timing]
    usual = sum(known) / len(known) if known else 1.0
    return [
        max((member.until_step or trial.step + 1) - trial.step, 1) * Fraction(timing or usual)
        for member, trial, timing in zip(members, trials, timings, strict=True)
    ]
