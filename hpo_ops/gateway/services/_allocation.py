"""Applies the allocator's decisions on the widths of running trials to the ledger.

A trial's width is its number of resource units (such as GPUs), or a fraction below 1 where trials
share a unit. A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from fractions import Fraction

from hpo_ops.allocators import changes_of
from hpo_ops.config.allocator_limits import capacity_of
from hpo_ops.core import Action, Allocation, Decision, Member, TrialGroup, TrialState
from hpo_ops.ledger import StudyTransaction
from hpo_ops.ledger.rows import SegmentRow

logger = logging.getLogger(__name__)

ONE = Fraction(1)


def width_for(session: StudyTransaction, number: int) -> tuple[Fraction, str | None]:
    """Returns the width of a trial's next segment, or why the trial must wait for units.

    Returns:
        The width and None; or 0 and the reason, if the allocator gives the trial no units. In a
        study without an allocator, the width is always 1.
    """
    if session.record.config.allocator is None:
        return ONE, None
    allocation = _allocate(session, _units(session))
    placement = allocation.placed.get(number)
    if placement is None:
        return Fraction(0), f"no units are left for the trial: {allocation.reason}"
    return placement.width, None


def startable(session: StudyTransaction, numbers: Sequence[int]) -> list[int]:
    """Returns which of the given trials could lease units for their next segment now.

    Args:
        session: The study's open transaction.
        numbers: Trials that have a slot, in the order in which they may take units.
    """
    config = session.record.config
    if config.allocator is None:
        return list(numbers[: session.leases.count_free()])
    if not numbers:
        return []
    placed = _allocate(session, _units(session)).placed
    room = session.leases.room()
    found, left = [], room.free + 1e-9
    for number in numbers:
        if number in placed and (amount := float(placed[number].width) * config.lease) <= left:
            found.append(number)
            left -= amount
    return found


def resize(session: StudyTransaction, segment: SegmentRow) -> Decision | None:
    """Requests a trial to save a checkpoint and restart if the allocator changes its width.

    A trial without a checkpoint is not widened, since it would have to repeat all of its steps.

    Returns:
        The decision to resize, or None if the trial continues with its present width.
    """
    config, number = session.record.config, segment.trial
    if config.allocator is None:
        return None
    units = _units(session)
    if not _is_unsettled(session, units):
        return None
    allocation = _allocate(session, units)
    changes = changes_of(session.view, allocation)
    trial = session.view.trials[number]
    if number in changes.paused:
        decision = Decision(Action.RESIZE, f"no units are left for the trial: {allocation.reason}")
    elif number in changes.resized:
        width = allocation.placed[number].width
        if width > trial.width and not trial.checkpoint_step:
            return None
        text = f"{trial.width} to {width} units: {allocation.reason}"
        decision = Decision(Action.RESIZE, text)
    else:
        return None
    session.trials.record_decision(number, trial.step, decision)
    session.segments.request(segment.id, decision)
    logger.info("trial %d resize at step %d: %s", number, trial.step, decision.reason)
    return decision


def _is_unsettled(session: StudyTransaction, units: int) -> bool:
    """Checks whether the running trials hold too few or too many units, or a trial holds none.

    Args:
        session: The study's open transaction.
        units: The number of units that the study may hold.
    """
    widths = [trial.width for trial in session.view.in_state(TrialState.RUNNING).values()]
    return sum(widths) != units or not all(widths)


def _units(session: StudyTransaction) -> int:
    """Returns how many resource units the study may hold now.

    If the capacity of the study's pool is unknown, it is one unit for each slot of the study.
    """
    config = session.record.config
    room = session.leases.room()
    if room.amount is None:
        return config.parallelism
    return max(int(room.amount / config.lease + 1e-9), 0)


def _allocate(session: StudyTransaction, units: int) -> Allocation:
    """Returns how the study's allocator distributes `units` over all trials that have a slot."""
    config, view = session.record.config, session.view
    allocator = config.create_allocator()
    if allocator is None:
        raise ValueError(f"study {session.record.key} has no allocator")
    numbers = sorted(view.in_state(TrialState.RUNNING))
    rows = session.trials.select(numbers)
    members = tuple(
        Member(
            trial=number,
            until_step=rows[number].until_step,
            reason="the trial has a slot",
            group=view.trials[number].group,
        )
        for number in numbers
    )
    group = TrialGroup(members, "all trials that have a slot")
    return allocator.allocate(view, group, capacity_of(config, units), session.now)
