"""Fluid: gives each trial units (such as GPUs) in proportion to its remaining work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hpo_ops.allocators._placement import Placer, units_of
from hpo_ops.allocators._remaining_work import Work, exact, on_one_scale, trials_of, work_of
from hpo_ops.core import Allocation, Capacity, Member, Study, TrialGroup, TrialState
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.core.trial_state import NO_UNIT, as_width


def fluid_widths(
    work: Sequence[Fraction | float], *, units: int, max_share: int, max_width: int
) -> list[Fraction]:
    """Computes Fluid's widths, min(max(floor(h_i / sum(h) * n), 1/c), d), in exact arithmetic.

    The width of a trial is its number of units, or a fraction below 1 if trials share a unit.

    >>> [float(width) for width in fluid_widths([6, 2, 1, 1], units=5, max_share=2, max_width=4)]
    [3.0, 1.0, 0.5, 0.5]

    Args:
        work: Work of each trial, as training time on one unit (h).
        units: Number of units for all trials (n).
        max_share: Largest number of trials that share one unit (c).
        max_width: Largest number of units of one trial (d).

    Raises:
        ValueError: An amount of work is 0 or less, or a bound is below 1.
    """
    if max_share < 1 or max_width < 1:
        name, value = ("max_share", max_share) if max_share < 1 else ("max_width", max_width)
        raise ValueError(f"{name} is {value}, but must be 1 or more")
    for index, amount in enumerate(work):
        if not amount > 0:
            raise ValueError(f"work[{index}] is {amount}, but must be more than 0")
    amounts = on_one_scale(work)
    total = sum(amounts)
    smallest = as_width(1, max_share)
    return [
        as_width(min(share, max_width)) if (share := amount * units // total) else smallest
        for amount in amounts
    ]


@dataclass(frozen=True, kw_only=True)
class DynamicFluid:
    """Shares units among trials in proportion to their remaining work, again at every change.

    Yu et al., "Fluid: Resource-aware Hyperparameter Tuning Engine", MLSys 2021: water-filling by
    the formula of StaticFluid with the remaining work, one trial group (trials that the scheduler
    started together) after the other, in the order of the group numbers. A group may use the idle
    units and the units that it holds. A trial whose width (number of units) changes is restarted
    from its checkpoint.

    Departures: the work of a trial is its remaining steps times the time of a step on one unit.
    If not all trials fit, the trials with the least work are queued. A trial whose width does not
    change is not restarted, nor is a trial that is nearly done (10 s in the authors' code).

    Example:
        >>> DynamicFluid()
        DynamicFluid(min_seconds=10.0)

    Attributes:
        min_seconds: Remaining training time in seconds below which a trial keeps its width.
    """

    min_seconds: float = 10.0

    def __post_init__(self) -> None:
        check_at_least("min_seconds", self.min_seconds, 0)

    def allocate(
        self, study: Study, group: TrialGroup, capacity: Capacity, now: float
    ) -> Allocation:
        groups = split_groups(group)
        placer = Placer(capacity, trials_of(study, group.members))
        for index, members in enumerate(groups):
            later = [member for other in groups[index + 1 :] for member in other]
            rest = self._keep(placer, work_of(study, members))
            if not rest:
                continue
            amounts = exact(rest)
            widths = fluid_widths(
                amounts,
                units=placer.empty_units(units_of(trials_of(study, later))),
                max_share=capacity.max_share,
                max_width=capacity.max_width,
            )
            place_by_work(placer, rest, amounts, widths)
        reason = f"{len(groups)} groups share {capacity.units} units by remaining work"
        return Allocation(placer.placed, tuple(placer.queued), reason)

    def _keep(self, placer: Placer, work: Sequence[Work]) -> list[Work]:
        """Places each trial that is nearly done (`min_seconds`) with its current width.

        Returns:
            The remaining work of the trials that were not placed.
        """
        rest = []
        for item in work:
            width = item.trial.width
            if width and item.seconds * width.denominator < self.min_seconds * width.numerator:
                placer.place(item.trial, width)
            else:
                rest.append(item)
        return rest


@dataclass(frozen=True, kw_only=True)
class StaticFluid:
    """Shares units among trials in proportion to their work, once, when each trial starts.

    Yu et al., "Fluid: Resource-aware Hyperparameter Tuning Engine", MLSys 2021: a trial gets
    w = min(max(floor(h / sum(h) * n), 1/c), d) units, where h is its work, n the number of units,
    c the largest number of trials that share a unit and d the largest number of units of a trial.
    A running trial is never resized.

    Departures: see ``DynamicFluid``. A queued trial starts as soon as enough units are free for
    its width, which the formula gives with the remaining work of all trials.

    Example:
        >>> StaticFluid()
        StaticFluid()
    """

    @property
    def is_static(self) -> Literal[True]:
        """Always true: running trials keep their widths, so that reports change no width."""
        return True

    def allocate(
        self, study: Study, group: TrialGroup, capacity: Capacity, now: float
    ) -> Allocation:
        work = work_of(study, group.members)
        placer = Placer(capacity, [item.trial for item in work])
        amounts = exact(work)
        widths = fluid_widths(
            amounts,
            units=capacity.units,
            max_share=capacity.max_share,
            max_width=capacity.max_width,
        )
        held = [
            item.trial.width if item.trial.state is TrialState.RUNNING else NO_UNIT
            for item in work
        ]
        for runs in (True, False):
            rows = [i for i, width in enumerate(held) if bool(width) is runs]
            place_by_work(
                placer,
                [work[i] for i in rows],
                [amounts[i] for i in rows],
                [held[i] if runs else widths[i] for i in rows],
            )
        return Allocation(
            placer.placed, tuple(placer.queued), f"{capacity.units} units shared by work"
        )


def split_groups(group: TrialGroup) -> list[list[Member]]:
    """Splits the trials to allocate by their group number; returns the lowest number first."""
    groups: dict[int, list[Member]] = {}
    for member in group.members:
        groups.setdefault(member.group, []).append(member)
    return [groups[number] for number in sorted(groups)]


def place_by_work(
    placer: Placer, work: Sequence[Work], amounts: Sequence[int], widths: Sequence[Fraction]
) -> None:
    """Places the trials with the most work first, and queues the trials that do not fit.

    Args:
        placer: Records the placed and queued trials.
        work: The trials to place, each with its remaining work.
        amounts: Remaining work of each trial on a common scale, by which the trials are sorted.
        widths: Width (number of units, or a fraction of one unit) of each trial.
    """
    order = sorted(range(len(work)), key=amounts.__getitem__, reverse=True)
    for i in order:
        placer.place(work[i].trial, widths[i])
