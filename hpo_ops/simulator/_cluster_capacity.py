"""Describes the simulated cluster: its resource units (such as GPUs), delays and slowdowns."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hpo_ops.core import Capacity
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.core.unit_scaling import speedup


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The resource units of a simulated cluster, and the time lost by starting and sharing.

    A width is the number of units that a trial holds, or a fraction below 1 where trials share a
    unit. A segment is one uninterrupted execution of a trial.

    Attributes:
        units: Number of resource units, such as GPUs, at the start of the simulation.
        max_share: Maximum number of trials that share one unit.
        max_width: Maximum number of units that one trial holds.
        start_seconds: Seconds from the start of a trial's first segment to the start of training.
        resume_seconds: Seconds from the start of any later segment to the start of training;
            includes the time to save and load the checkpoint.
        turnover_seconds: Seconds that a slot stays empty between two segments.
        checkpoint_every: Number of steps between two checkpoints; an interrupted trial resumes
            from its newest checkpoint.
        speedups: Training speed on 1, 2, 4, 8, ... units; if empty, the speed is proportional to
            the number of units.
        sharing_overhead: Relative extra time of a step if 2, 3, ... trials share a unit, in
            addition to the division of the unit's speed; the last entry also holds for more.
        capacity_changes: Pairs of a time in seconds and the number of units from that time on.
        preemptions: Times in seconds; at each, the running trial with the highest number is
            preempted.
    """

    units: int
    max_share: int = 1
    max_width: int = 1
    start_seconds: float = 0.0
    resume_seconds: float = 0.0
    turnover_seconds: float = 0.0
    checkpoint_every: int = 1
    speedups: tuple[float, ...] = ()
    sharing_overhead: tuple[float, ...] = ()
    capacity_changes: tuple[tuple[float, int], ...] = ()
    preemptions: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_at_least("units", self.units, 1)
        check_at_least("max_share", self.max_share, 1)
        check_at_least("max_width", self.max_width, 1)
        check_at_least("start_seconds", self.start_seconds, 0)
        check_at_least("resume_seconds", self.resume_seconds, 0)
        check_at_least("turnover_seconds", self.turnover_seconds, 0)
        check_at_least("checkpoint_every", self.checkpoint_every, 1)

    def capacity(self, units: int) -> Capacity:
        """Returns the allocator's input for a number of units: the units and limits on widths."""
        return Capacity(units, max_share=self.max_share, max_width=self.max_width)

    def speed(self, width: Fraction) -> float:
        """Returns the training speed of a trial of this width, relative to one unshared unit."""
        if width >= 1:
            return speedup(width, self.speedups)
        sharing = round(1 / width)
        overhead = 0.0
        if self.sharing_overhead:
            overhead = self.sharing_overhead[min(sharing - 2, len(self.sharing_overhead) - 1)]
        return float(width) / (1 + overhead)
