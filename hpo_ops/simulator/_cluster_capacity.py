"""The simulated cluster: its units, and the costs of starting and sharing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hpo_ops.core import Capacity
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.core.unit_scaling import speedup


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The units of a simulated cluster, and the time that starting and sharing cost.

    Attributes:
        units: Number of units: GPUs, or slots.
        max_share: Most trials on one unit.
        max_width: Most units for one trial.
        start_seconds: Seconds from the start of a trial's first segment to its first step.
        resume_seconds: The same for later segments, saving and loading included.
        turnover_seconds: Seconds that a slot stays empty between two segments.
        checkpoint_every: Steps between two checkpoints; an interrupted trial resumes from the
            newest one.
        speedups: Speed on 1, 2, 4, 8, ... units; proportional to the units if empty.
        sharing_overhead: Relative extra time of a step with 2, 3, ... trials on a unit, beyond
            sharing its speed; the last entry holds for more trials.
        capacity_changes: Pairs of a time and the number of units from then on.
        preemptions: Times at which the running trial with the highest number is preempted.
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
        """The capacity that an allocator may hand out, with this number of units."""
        return Capacity(units, max_share=self.max_share, max_width=self.max_width)

    def speed(self, width: Fraction) -> float:
        """The speed at a width, relative to one full unit."""
        if width >= 1:
            return speedup(width, self.speedups)
        sharing = round(1 / width)
        overhead = 0.0
        if self.sharing_overhead:
            overhead = self.sharing_overhead[min(sharing - 2, len(self.sharing_overhead) - 1)]
        return float(width) / (1 + overhead)
