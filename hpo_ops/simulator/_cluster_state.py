"""Holds the state of the simulated cluster: running and queued segments, and resource units.

A segment is one uninterrupted execution of a trial. Its width is the number of units that it
holds, or a fraction below 1 where trials share a unit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappush

from hpo_ops.allocators import changes_of
from hpo_ops.core import Allocator, Member, Study, TrialGroup, TrialState
from hpo_ops.core.trial_state import NO_UNIT, ONE_UNIT
from hpo_ops.simulator._cluster_capacity import Cluster
from hpo_ops.simulator._event_queue import REPORT, EventQueue
from hpo_ops.simulator._replay_result import Interval, as_interval
from hpo_ops.simulator.traces import TrialTrace

LogLine = tuple[float, str, int | None, int, str]
"""The fields of `Event`: time, kind of event, trial number, step and reason."""


@dataclass(slots=True)
class Segment:
    """A running or queued segment of a trial.

    The attributes from `width` on are set when the segment starts.

    Attributes:
        number: Number of the trial.
        steps: The step of each report in the trial's trace.
        values: The objective value of each report in the trial's trace.
        seconds: Seconds of training before each report, on one unit.
        done: Number of reports that the trial has made so far.
        until: Number of reports of the trial at which the segment ends.
        full_length: Number of reports of the trial if it trains to its full length.
        member: The scheduler's request for the segment: its reason, last step, and number of the
            trial group that it was requested with.
        width: Number of units that the segment holds.
        speed: Training speed at this width, relative to one unshared unit.
        duration: Seconds of training before the next report, at this speed.
        units: Indices of the units that the segment holds.
        started: Virtual time at which the segment started.
        from_step: The step of the checkpoint that the segment started from; 0 for none.
        version: Number that is unique to this start; events with another version are ignored.
    """

    number: int
    steps: Sequence[int]
    values: Sequence[float]
    seconds: Sequence[float]
    done: int
    until: int
    full_length: int
    member: Member
    width: Fraction = field(init=False)
    speed: float = field(init=False)
    duration: float = field(init=False)
    units: tuple[int, ...] = field(init=False)
    started: float = field(init=False)
    from_step: int = field(init=False)
    version: int = field(init=False)

    @property
    def step(self) -> int:
        """The last reported step of the trial; 0 before the first report."""
        return self.steps[self.done - 1] if self.done else 0


def make_segment(
    number: int, trace: TrialTrace, member: Member, from_step: int, max_steps: int | None
) -> Segment:
    """Creates the next segment of a trial.

    The segment ends at the last step that the scheduler requested, or at the full length of the
    trial if that comes first, but makes at least one report.

    Args:
        number: Number of the trial.
        trace: The reports of the trial.
        member: The scheduler's request for the segment.
        from_step: Step of the checkpoint that the segment starts from; 0 for none.
        max_steps: Last step of a full-length trial; None if the trace sets the length.
    """
    steps = trace.at_steps
    full_length = len(steps)
    if max_steps is not None and max_steps < steps[-1]:
        full_length = bisect_left(steps, max_steps) + 1
    done = bisect_right(steps, from_step) if from_step else 0
    until, until_step = full_length, member.until_step
    if until_step is not None and until_step < steps[full_length - 1]:
        until = bisect_left(steps, until_step) + 1
    if until <= done:
        until = done + 1
    return Segment(number, steps, trace.values, trace.seconds, done, until, full_length, member)


class ClusterState:
    """The running segments, the units that they hold, and the segments that wait for units."""

    def __init__(
        self,
        study: Study,
        cluster: Cluster,
        allocator: Allocator | None,
        queue: EventQueue,
        log: list[LogLine],
    ) -> None:
        self._study, self._cluster, self._allocator = study, cluster, allocator
        self._heap, self._counter, self._log = queue.heap, queue.counter, log
        self._versions = 0
        self.running: dict[int, Segment] = {}
        self.queued: dict[int, Segment] = {}
        self.intervals: list[Interval] = []
        self.restarts = 0
        self._held = NO_UNIT
        self.set_units(cluster.units)

    def set_units(self, units: int) -> None:
        """Sets the number of units of the cluster, and the number of slots of the study.

        There is one slot for each unit, or `max_share` slots if there is an allocator.
        """
        self.units = units
        shares = self._cluster.max_share if self._allocator is not None else 1
        self._study.slots = units * shares

    @property
    def has_idle_units(self) -> bool:
        """Whether there is an allocator and the running segments hold fewer units than exist."""
        return self._allocator is not None and self._held < self.units

    def take(self, segment: Segment, now: float) -> None:
        """Starts a segment on one unit, or queues the segment if there is an allocator.

        Queued segments are started by `reallocate`.
        """
        if self._allocator is None:
            self._start(segment, ONE_UNIT, (), now)
            return
        number, member = segment.number, segment.member
        until_step = segment.steps[segment.until - 1]
        segment.member = Member(member.reason, number, until_step, member.group)
        self.queued[number] = segment

    def plan(self, segment: Segment, now: float) -> None:
        """Schedules the next report of a segment; `EventQueue.push` is inlined for speed."""
        segment.duration = duration = segment.seconds[segment.done] / segment.speed
        entry = (now + duration, next(self._counter), REPORT, segment.number, segment.version)
        heappush(self._heap, entry)

    def close(self, segment: Segment, now: float) -> int:
        """Ends a running segment, and returns the last step that its trial has reported."""
        number, started, done = segment.number, segment.started, segment.done
        step = segment.steps[done - 1] if done else 0
        del self.running[number]
        if self._allocator is not None:
            self._held -= segment.width
        if started > now:
            started = now
        held = (number, started, now, segment.width, segment.units, segment.from_step, step)
        self.intervals.append(as_interval(held))
        return step

    def lose(self, number: int, reason: str, now: float) -> None:
        """Preempts a running trial: ends its segment, and pauses the trial at its checkpoint."""
        self._interrupt(self.running[number], now)
        trial = self._study.move(number, TrialState.PAUSED)
        self._log.append((now, "preempted", number, trial.checkpoint_step, reason))

    def reallocate(self, now: float) -> None:
        """Requests a new allocation from the allocator; starts, resizes and pauses segments.

        Does nothing if there is no allocator, or no running or queued segment.
        """
        if self._allocator is None or not (self.running or self.queued):
            return
        segments = {**self.running, **self.queued}
        members = tuple(segments[number].member for number in sorted(segments))
        allocation = self._allocator.allocate(
            self._study,
            TrialGroup(members, "running and queued trials"),
            self._cluster.capacity(self.units),
            now,
        )
        changes = changes_of(self._study, allocation)
        for number in (*changes.resized, *changes.paused):
            self._interrupt(segments[number], now)
        for number in changes.paused:
            self._study.move(number, TrialState.PAUSED)
            self.queued[number] = segments[number]
            self._log.append((now, "queued", number, segments[number].step, allocation.reason))
        for number in (*changes.resized, *changes.started):
            placement = allocation.placed[number]
            self.queued.pop(number, None)
            self.restarts += number in changes.resized
            self._start(segments[number], placement.width, placement.units, now)

    def _start(
        self, segment: Segment, width: Fraction, units: tuple[int, ...], now: float
    ) -> None:
        number, cluster = segment.number, self._cluster
        member = segment.member
        trial = self._study.start(number, width, units, member.group)
        startup = cluster.start_seconds if trial.segments == 1 else cluster.resume_seconds
        trial.startup_seconds = startup
        segment.width, segment.units = width, units
        segment.speed = 1.0 if width is ONE_UNIT else cluster.speed(width)
        segment.started = started = now + cluster.turnover_seconds if now else now
        done = segment.done
        segment.from_step = from_step = segment.steps[done - 1] if done else 0
        self._versions = segment.version = self._versions + 1
        self.running[number] = segment
        if self._allocator is not None:
            self._held += width
        self._log.append((now, "start", number, from_step, member.reason))
        self.plan(segment, started + startup)

    def _interrupt(self, segment: Segment, now: float) -> None:
        """Ends a running segment, and sets its trial back to the newest checkpoint."""
        reported = self.close(segment, now)
        every = self._cluster.checkpoint_every
        trial = self._study.trials[segment.number]
        trial.checkpoint_step = max(trial.checkpoint_step, reported // every * every)
        step = trial.checkpoint_step
        segment.done = bisect_right(segment.steps, step) if step else 0
