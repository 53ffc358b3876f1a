"""What an allocation changes for the trials that run."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.core import Allocation, Placement, Study, TrialState


@dataclass(frozen=True, slots=True)
class Changes:
    """What has to be done to get from the trials as they run to an allocation.

    Attributes:
        started: Trials that start.
        resized: Trials that save and start again with another width.
        paused: Trials that save and wait, since nothing is left for them.
        kept: Trials that nothing changes for.
    """

    started: tuple[int, ...]
    resized: tuple[int, ...]
    paused: tuple[int, ...]
    kept: tuple[int, ...]


def changes_of(study: Study, allocation: Allocation) -> Changes:
    """The difference between what runs and an allocation: only what differs is touched."""
    running = study.in_state(TrialState.RUNNING)
    started, resized, kept = [], [], []
    for number, placement in allocation.placed.items():
        if number not in running:
            started.append(number)
        elif _differs(study, number, placement):
            resized.append(number)
        else:
            kept.append(number)
    paused = [number for number in allocation.queued if number in running]
    return Changes(tuple(started), tuple(resized), tuple(paused), tuple(kept))


def _differs(study: Study, number: int, placement: Placement) -> bool:
    """Whether the trial has to start again; whole units are as good as any other."""
    trial, width, units = study.trials[number], placement.width, placement.units
    if trial.width is not width and trial.width != width:
        return True
    return trial.units != units and bool(trial.units) and width < 1
