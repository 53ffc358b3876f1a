"""Decisions: the answers of policies, always with a reason for people.

`Decision`, `Member` and `TrialGroup` are immutable to the type checker (``Final``), not at run
time. Every report makes a `Decision`, and the simulator makes millions: frozen dataclasses, which
take three to five times as long to make, slow replays under ``asha`` and ``bandit`` down by 7 to
10 %. Treat them as frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from hpo_ops.protocol import Action, ParamValue

CONTINUE, PAUSE, STOP = Action.CONTINUE, Action.PAUSE, Action.STOP
"""Looking up an enum member takes longer than a global, and every report does it."""
NO_REASON = "reason is empty, but every decision must say why"


@dataclass(slots=True, init=False, unsafe_hash=True)
class Decision:
    """What a scheduler tells a running trial to do, and why.

    A paused trial keeps its checkpoint and may be resumed. A stopped trial cannot be resumed; its
    checkpoints may be deleted.

    Attributes:
        action: Continue, pause or stop.
        reason: Why, for people. It does not repeat the trial and the step, which are shown beside
            it.
    """

    action: Final[Action]
    reason: Final[str]

    def __init__(self, action: Action, reason: str) -> None:
        if not reason or reason.isspace():
            raise ValueError(NO_REASON)
        self.action = action
        self.reason = reason


@dataclass(slots=True, init=False, unsafe_hash=True)
class Member:
    """A member of a trial group: a trial to resume or a new trial, and how far it may train.

    Attributes:
        trial: Number of a paused or waiting trial; None for a new trial.
        until_step: Last step of the segment; None where the training code decides.
        reason: Why this trial runs now.
        group: Number of the trial group, in the order of arrival, for allocators that share units
            by group; by default all trials are in group 0.
        parent: Number of the trial from whose checkpoint a new trial starts (population-based
            training); None to start from scratch.
        params: Hyperparameters of a new trial; None to ask the sampler.
    """

    trial: Final[int | None]
    until_step: Final[int | None]
    reason: Final[str]
    group: Final[int]
    parent: Final[int | None]
    params: Final[Mapping[str, ParamValue] | None]

    def __init__(
        self,
        reason: str,
        trial: int | None = None,
        until_step: int | None = None,
        group: int = 0,
        parent: int | None = None,
        params: Mapping[str, ParamValue] | None = None,
    ) -> None:
        if not reason or reason.isspace():
            raise ValueError(NO_REASON)
        self.trial = trial
        self.until_step = until_step
        self.reason = reason
        self.group = group
        self.parent = parent
        self.params = params


@dataclass(slots=True, init=False, unsafe_hash=True)
class TrialGroup:
    """The trials that a scheduler starts or resumes together, each with a training budget.

    Attributes:
        members: The trials.
        reason: Why these trials, and why no more.
        dropped: Numbers of paused and waiting trials that will never run again. They are pruned
            with the same reason, and their checkpoints may be deleted.
    """

    members: Final[tuple[Member, ...]]
    reason: Final[str]
    dropped: Final[tuple[int, ...]]

    def __init__(
        self, members: tuple[Member, ...], reason: str, dropped: tuple[int, ...] = ()
    ) -> None:
        if not reason or reason.isspace():
            raise ValueError(NO_REASON)
        self.members = members
        self.reason = reason
        self.dropped = dropped

    def __len__(self) -> int:
        return len(self.members)


@dataclass(frozen=True, slots=True)
class Capacity:
    """The units of a pool (GPUs, or CPUs), and how they may be shared and combined.

    Attributes:
        units: Number of units.
        max_share: Most trials packed on one unit (Fluid's c).
        max_width: Most units for one trial (Fluid's d).
    """

    units: int
    max_share: int = 1
    max_width: int = 1

    def __post_init__(self) -> None:
        if self.units < 0:
            raise ValueError(f"units is {self.units}, but must be 0 or more")
        if self.max_share < 1:
            raise ValueError(f"max_share is {self.max_share}, but must be 1 or more")
        if self.max_width < 1:
            raise ValueError(f"max_width is {self.max_width}, but must be 1 or more")


class Placement(NamedTuple):
    """The units that a trial runs on, and its width: their number, or its share of one."""

    width: Fraction
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """The answer of an allocator: which trials run on which units.

    Attributes:
        placed: Placements by trial number.
        queued: Numbers of the trials that wait until units are free.
        reason: Why, for people.
    """

    placed: dict[int, Placement]
    queued: tuple[int, ...]
    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError(NO_REASON)
