"""Fluid: resources in proportion to the work that is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hpo_ops.allocators.board import Board, units_of
from hpo_ops.allocators.work import trials_of, work_of
from hpo_ops.core import Allocation, Capacity, Member, Study, TrialGroup, TrialState
from hpo_ops.core.options import check_at_least


def fluid_widths(
    work: Sequence[Fraction | float], *, units: int, max_share: int, max_width: int
) -> list[Fraction]:
    """The widths of StaticFluid: min(max(floor(h_i / sum(h) * n), 1/c), d), exactly.

    >>> [float(width) for width in fluid_widths([6, 2, 1, 1], units=5, max_share=2, max_width=4)]
    [3.0, 1.0, 0.5, 0.5]

    Args:
        work: Work of each trial on one unit (h).
        units: Units of the group (n).
        max_share: Most trials on one unit (c).
        max_width: Most units for one trial (d).

    Raises:
        ValueError: A work is 0 or less, or a bound below 1.
    """
    if max_share < 1 or max_width < 1:
        name, value = ("max_share", max_share) if max_share < 1 else ("max_width", max_width)
        raise ValueError(f"{name} is {value}, but must be 1 or more")
    for index, amount in enumerate(work):
        if not amount > 0:
            raise ValueError(f"work[{index}] is {amount}, but must be more than 0")
    exact = [Fraction(amount) for amount in work]
    total = sum(exact, Fraction(0))
    smallest = Fraction(1, max_share)
    return [
        min(max(Fraction(amount * units // total), smallest), Fraction(max_width))
        for amount in exact
    ]


@dataclass(frozen=True, kw_only=True)
class DynamicFluid:
    """Shares units among trial groups in proportion to work, again whenever something changes.

    Yu et al., "Fluid: Resource-aware Hyperparameter Tuning Engine", MLSys 2021: water-filling by
    the formula of StaticFluid with the work that is left, groups in the order of their arrival;
    a group has what is idle and what it holds.

    Departures: the work of a trial is its remaining steps times the time of a step on one unit.
    What does not fit is queued, the trials with the least work first; a trial whose width stays
    the same is left alone, and so is one that is nearly done (10 s in the authors' code).

    Example:
        >>> DynamicFluid()
        DynamicFluid(min_seconds=10.0)

    Attributes:
        min_seconds: A trial that ends sooner than this keeps its width.
    """

    min_seconds: float = 10.0

    def __post_init__(self) -> None:
        check_at_least("min_seconds", self.min_seconds, 0)

    def allocate(
        self, study: Study, group: TrialGroup, capacity: Capacity, now: float
    ) -> Allocation:
        board = Board(capacity)
        groups = split_groups(group)
        for index, members in enumerate(groups):
            later = TrialGroup(tuple(m for other in groups[index + 1 :] for m in other), "later")
            reserved = units_of(trials_of(study, later))
            rest = self._keep(board, study, members)
            if not rest:
                continue
            work = work_of(study, rest)
            widths = fluid_widths(
                work,
                units=board.empty_units(reserved),
                max_share=capacity.max_share,
                max_width=capacity.max_width,
            )
            place_by_work(board, study, rest, work, widths, reserved)
        reason = f"{len(groups)} groups share {capacity.units} units by the work that is left"
        return Allocation(board.placed, tuple(board.queued), reason)

    def _keep(self, board: Board, study: Study, members: Sequence[Member]) -> list[Member]:
        """Places what is nearly done where it is; the others."""
        rest = []
        trials = trials_of(study, TrialGroup(tuple(members), "group"))
        for member, trial, left in zip(members, trials, work_of(study, members), strict=True):
            if trial.width and left / trial.width < self.min_seconds:
                board.place(trial, trial.width)
            else:
                rest.append(member)
        return rest


@dataclass(frozen=True, kw_only=True)
class StaticFluid:
    """Shares units among the trials of a group in proportion to work, once, when it arrives.

    Yu et al., "Fluid: Resource-aware Hyperparameter Tuning Engine", MLSys 2021: a trial gets
    w = min(max(floor(h / sum(h) * n), 1/c), d) units, h its work, n the units, c the most trials
    on a unit, d the most units of a trial.

    Departures: see ``DynamicFluid``. What runs keeps its width; what was queued gets its share of
    all units by the work that is left, when that fits.

    Example:
        >>> StaticFluid()
        StaticFluid()
    """

    def allocate(
        self, study: Study, group: TrialGroup, capacity: Capacity, now: float
    ) -> Allocation:
        board = Board(capacity)
        work = work_of(study, group.members)
        widths = fluid_widths(
            work,
            units=capacity.units,
            max_share=capacity.max_share,
            max_width=capacity.max_width,
        )
        trials = trials_of(study, group)
        running = [trial.state is TrialState.RUNNING and trial.width > 0 for trial in trials]
        for runs in (True, False):
            rows = [i for i, is_running in enumerate(running) if is_running is runs]
            place_by_work(
                board,
                study,
                [group.members[i] for i in rows],
                [work[i] for i in rows],
                [trials[i].width if runs else widths[i] for i in rows],
            )
        return Allocation(
            board.placed, tuple(board.queued), f"shares of {capacity.units} units by work, kept"
        )


def split_groups(group: TrialGroup) -> list[list[Member]]:
    """The members by trial group, in the order of arrival."""
    groups: dict[int, list[Member]] = {}
    for member in group.members:
        groups.setdefault(member.group, []).append(member)
    return [groups[number] for number in sorted(groups)]


def place_by_work(
    board: Board,
    study: Study,
    members: Sequence[Member],
    work: Sequence[Fraction],
    widths: Sequence[Fraction],
    avoid: set[int] | frozenset[int] = frozenset(),
) -> None:
    """Places trials, those with the most work first, and queues what does not fit."""
    trials = trials_of(study, TrialGroup(tuple(members), "members"))
    order = sorted(range(len(trials)), key=lambda i: (-work[i], i))
    for place, i in enumerate(order):
        others = units_of(trials[j] for j in order[place + 1 :])
        board.place(trials[i], widths[i], avoid | others)
