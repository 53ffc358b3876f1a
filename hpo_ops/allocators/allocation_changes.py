"""What an allocation changes for the trials that run."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.core import Allocation, Placement, Study, Trial, TrialState


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
        trial = running.get(number)
        if trial is None:
            started.append(number)
        elif _differs(trial, placement):
            resized.append(number)
        else:
            kept.append(number)
    paused = [number for number in allocation.queued if number in running]
    return Changes(tuple(started), tuple(resized), tuple(paused), tuple(kept))


def _differs(trial: Trial, placement: Placement) -> bool:
    """Whether the trial has to start again; whole units are as good as any other."""
    (width, units), held = placement, trial.width
    if held is not width and held != width:
        return True
    return trial.units is not units and bool(trial.units) and width < 1 and trial.units != units
