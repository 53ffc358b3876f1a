"""Decisions: what a policy answers, always with a reason that a person can read.

Those that are made for every trial are final to a type checker rather than frozen, and set their
fields themselves: a frozen dataclass takes three to five times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from hpo_ops.protocol import Action, ParamValue

CONTINUE, PAUSE, STOP = Action.CONTINUE, Action.PAUSE, Action.STOP
"""A member is looked up slowly, and every report asks for one."""
NO_REASON = "reason is empty, but every decision must say why"


@dataclass(slots=True, init=False, unsafe_hash=True)
class Decision:
    """What a running trial is to do, and why."""

    action: Final[Action]
    reason: Final[str]

    def __init__(self, action: Action, reason: str) -> None:
        if not reason or reason.isspace():
            raise ValueError(NO_REASON)
        self.action = action
        self.reason = reason


@dataclass(slots=True, init=False, unsafe_hash=True)
class Member:
    """A place in a trial group: a trial to resume or a new one, and how far it may train.

    Attributes:
        trial: Number of a paused or waiting trial; None asks the sampler for a new one.
        until_step: Last step of the segment; None where the training code decides.
        reason: Why this trial runs now.
        group: The trial group it belongs to, in the order of arrival; all are one by default.
        parent: Number of the trial whose checkpoint a new one starts from (population-based
            training); None starts afresh.
        params: Hyperparameters of a new trial; None asks the sampler.
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
    """Trials that share one round, each with a training budget; and why it is not larger.

    Attributes:
        members: What runs.
        reason: Why these, and why no more.
        dropped: Paused and waiting trials that will never run again: they are pruned, for the
            same reason.
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
    """What a pool has: whole units (GPUs, or slots), and the most trials that may share one.

    Attributes:
        units: Whole units.
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
    """Where a trial runs: its width and the units it is on."""

    width: Fraction
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """Trials to resources. What is queued runs when something is freed."""

    placed: dict[int, Placement]
    queued: tuple[int, ...]
    reason: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError(NO_REASON)
