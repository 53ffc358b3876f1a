"""The difference between an allocation and the placements of the running trials."""

from __future__ import annotations

from dataclasses import dataclass

from hpo_ops.core import Allocation, Placement, Study, Trial, TrialState


@dataclass(frozen=True, slots=True)
class Changes:
    """The numbers of the trials that an allocation starts, restarts, pauses and leaves unchanged.

    Attributes:
        started: Trials that do not run yet and that the allocation places on units.
        resized: Running trials to restart from a checkpoint, with another width (number of units,
            or a fraction of one unit) or on another shared unit.
        paused: Running trials that the allocation queues: they save a checkpoint and release
            their units.
        kept: Running trials whose placement does not change.
    """

    started: tuple[int, ...]
    resized: tuple[int, ...]
    paused: tuple[int, ...]
    kept: tuple[int, ...]


def changes_of(study: Study, allocation: Allocation) -> Changes:
    """Returns which trials must change so that the study's running trials match an allocation."""
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
    """Checks whether a running trial must be restarted to match its new placement.

    Full units are interchangeable, but a trial that shares a unit must run on that unit.
    """
    (width, units), held = placement, trial.width
    if held is not width and held != width:
        return True
    return trial.units is not units and bool(trial.units) and width < 1 and trial.units != units
