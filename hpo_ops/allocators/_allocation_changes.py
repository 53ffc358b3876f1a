"""The difference between an allocation and the trials as they run now."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.core import Allocation, Placement, Study, Trial, TrialState


@dataclass(frozen=True, slots=True)
class Changes:
    """The trials to start, restart, pause and leave alone to make an allocation true.

    Attributes:
        started: Trials that do not run yet and were placed.
        resized: Running trials that are restarted from a checkpoint with another width.
        paused: Running trials that were queued: they save a checkpoint and release their units.
        kept: Running trials whose placement stays the same.
    """

    started: tuple[int, ...]
    resized: tuple[int, ...]
    paused: tuple[int, ...]
    kept: tuple[int, ...]


def changes_of(study: Study, allocation: Allocation) -> Changes:
    """The changes that turn the running trials of a study into an allocation."""
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
    """Whether the trial has to be restarted; full units are interchangeable, shares are not."""
    (width, units), held = placement, trial.width
    if held is not width and held != width:
        return True
    return trial.units is not units and bool(trial.units) and width < 1 and trial.units != units
