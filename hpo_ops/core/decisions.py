"""Decisions: the return values of policies, always with a human-readable reason.

`Decision`, `Member` and `TrialGroup` are immutable for the type checker (``Final``), not at run
time; treat them as frozen. Every report creates a `Decision`, and the simulator creates millions.
Frozen dataclasses take three to five times as long to create, which slows replays with ``asha``
and ``bandit`` down by 7 to 10 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from hpo_ops.protocol import Action, ParamValue

CONTINUE, PAUSE, STOP = Action.CONTINUE, Action.PAUSE, Action.STOP
"""Globals for enum members: a global is faster to look up, which every report does."""
NO_REASON = "reason is empty, but every decision must say why"


@dataclass(slots=True, init=False, unsafe_hash=True)
class Decision:
    """A scheduler's action for a running trial, with the reason.

    A paused trial keeps its checkpoint and may be resumed. A stopped trial cannot be resumed; its
    checkpoints may be deleted.

    Attributes:
        action: Continue, pause or stop.
        reason: Human-readable reason for the action. It does not name the trial and the step,
            which are displayed beside the reason.
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
        until_step: Last step of the segment (the trial's next uninterrupted execution); None if
            the training code decides when to end.
        reason: Why the trial runs now.
        group: Number of the trial group, for allocators that share units by group; earlier groups
            have lower numbers. By default all trials are in group 0.
        parent: Number of the trial from whose checkpoint a new trial starts (population-based
            training); None to start from scratch.
        params: Hyperparameters of a new trial; None to request them from the sampler.
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
        members: The trials to start or resume.
        reason: Why the group consists of these trials, and why it is not larger.
        dropped: Numbers of paused and waiting trials that will never run again. They are pruned
            with the group's reason, and their checkpoints may be deleted.
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
    """The resource units of a pool (such as GPUs), and how units may be shared and combined.

    Attributes:
        units: Number of units.
        max_share: Largest number of trials that share one unit (c in the Fluid paper).
        max_width: Largest number of units of one trial (d in the Fluid paper).
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
    """The units that a trial runs on, and its width.

    The width is the number of units, or a fraction below 1 if the trial shares a unit.
    """

    width: Fraction
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """An allocator's assignment of trials to resource units.

    Attributes:
        placed: Placements by trial number.
        queued: Numbers of the trials that wait until units are free.
        reason: Human-readable reason for the assignment.
    """

    placed: dict[int, Placement]
    queued: tuple[int, ...]
    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError(NO_REASON)
