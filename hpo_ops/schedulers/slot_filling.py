"""Filling free slots: paused and waiting trials first, then new trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from heapq import nsmallest
from itertools import chain

from hpo_ops.core import Member, Study, Trial, TrialGroup
from hpo_ops.core.trial_state import PAUSED, WAITING

UntilStep = Callable[[int], int | None]
"""Maps the step that a trial has reached to the last step of its next segment."""


def waiting_trials(study: Study, count: int) -> list[Trial]:
    """Returns up to ``count`` paused or waiting trials, sorted by priority, then by number."""
    paused, fresh = study.in_state(PAUSED), study.in_state(WAITING)
    if not paused and not fresh:
        return []
    waiting: Iterable[Trial] = chain(paused.values(), fresh.values())
    return nsmallest(max(count, 0), waiting, key=by_priority)


def by_priority(trial: Trial) -> tuple[bool, float, int]:
    """Returns a trial's sort key: by descending priority, without priority last, by number."""
    return trial.priority is None, -(trial.priority or 0.0), trial.number


def fill_slots(study: Study, free: int, until_step: UntilStep) -> TrialGroup:
    """Returns a trial group for the free slots: paused or waiting trials, then new trials.

    Args:
        study: The study.
        free: Number of free slots.
        until_step: Maps the step that a trial has reached to the last step of its next segment
            (one uninterrupted execution).
    """
    if free <= 0:
        return TrialGroup((), "no slot is free")
    members = []
    for trial in waiting_trials(study, free):
        reason = resume_reason(trial, study.goal.name_of(trial.number))
        members.append(resume(trial, until_step(trial.step), reason))
    return add_new(study, members, free, until_step(0))


def resume_reason(trial: Trial, name: str | None = None) -> str:
    """Returns the reason displayed when a paused or waiting trial gets a free slot."""
    name = name or f"trial {trial.number}"
    if trial.state is WAITING:
        return f"{name} was waiting for its first segment"
    return f"{name} resumes from step {trial.step}"


def resume(trial: Trial, until_step: int | None, reason: str | None = None) -> Member:
    """Returns a `Member` of a trial group that starts or resumes the given trial."""
    return Member(reason or resume_reason(trial), trial.number, until_step)


def add_new(study: Study, members: list[Member], free: int, until_step: int | None) -> TrialGroup:
    """Returns a trial group of the given members, and new trials for the other free slots."""
    resumed, number, goal = len(members), len(study.trials), study.goal
    new, unstarted = free - resumed, study.unstarted
    if new > unstarted:
        new = unstarted
    if new < 0:
        new = 0
    fresh = []
    for mine in range(number, number + new):
        name = f"trial {mine}" if goal.folds == 1 else goal.name_of(mine)
        fresh.append(Member(f"{name} is new, and a slot is free", None, until_step))
    return TrialGroup((*members, *fresh), group_reason(study, resumed, new, free))


def group_reason(study: Study, resumed: int, new: int, free: int) -> str:
    """Returns the reason of a trial group: how many trials it has, and why not more."""
    if resumed + new == free:  # the usual case
        return _full_reason(resumed, new, free)
    started = f"all {study.goal.by_trial().trials} trials have been started"
    if resumed + new == 0:
        return f"{started} and none is waiting"
    return f"{_full_reason(resumed, new, free)}; {started}"


@lru_cache(maxsize=1024)
def _full_reason(resumed: int, new: int, free: int) -> str:
    return f"{resumed} resumed and {new} new trials for {free} free slots"
