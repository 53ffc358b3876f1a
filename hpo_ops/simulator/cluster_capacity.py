"""The cluster that a study is replayed on."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hpo_ops.core import Capacity
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.core.unit_scaling import speedup


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Units, and what it costs to start, resume, widen and share on them.

    Attributes:
        units: GPUs, or slots.
        max_share: Most trials on one unit.
        max_width: Most units for one trial.
        start_seconds: From the start of a trial's first segment to its first step.
        resume_seconds: The same for later segments, with saving and loading.
        turnover_seconds: How long a place is empty between two segments.
        checkpoint_every: Steps between two checkpoints; an interrupted trial goes back to one.
        speedups: Speed on 1, 2, 4, 8, ... units; ideal where empty.
        sharing_overhead: How much longer steps take with 2, 3, ... trials on a unit, beyond
            sharing its speed; the last entry counts for more.
        capacity_changes: Times, and the units from then on.
        preemptions: Times at which a trial loses its place.
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
        """What an allocator may hand out."""
        return Capacity(units, max_share=self.max_share, max_width=self.max_width)

    def speed(self, width: Fraction) -> float:
        """Steps in the time of one step on a whole unit."""
        if width >= 1:
            return speedup(width, self.speedups)
        sharing = round(1 / width)
        overhead = 0.0
        if self.sharing_overhead:
            overhead = self.sharing_overhead[min(sharing - 2, len(self.sharing_overhead) - 1)]
        return float(width) / (1 + overhead)
