"""The event loop: what happens when a step is done, a place is free or a unit is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush

from hpo_ops.allocators import changes_of
from hpo_ops.core import (
    Action,
    Allocator,
    Decision,
    Forecasting,
    Goal,
    Member,
    Scheduler,
    Study,
    TrialGroup,
    TrialState,
)
from hpo_ops.curves import CurvePredictor
from hpo_ops.simulator.cluster import Cluster
from hpo_ops.simulator.replay import Interval, Replay
from hpo_ops.simulator.traces import Traces

ONE = Fraction(1)
REPORT, CAPACITY, PREEMPT = range(3)


@dataclass(slots=True)
class Segment:
    """A trial that runs."""

    number: int
    values: Sequence[float]
    seconds: Sequence[float]
    step: int
    until: int
    version: int
    member: Member
    width: Fraction = ONE
    speed: float = 1.0
    units: tuple[int, ...] = ()
    started: float = 0.0
    from_step: int = 0


class Loop:
    """The state of a replay."""

    def __init__(
        self,
        traces: Traces,
        scheduler: Scheduler,
        cluster: Cluster,
        goal: Goal,
        allocator: Allocator | None,
        predictor: CurvePredictor | None,
    ) -> None:
        self.traces, self.scheduler, self.cluster = traces, scheduler, cluster
        self.allocator, self.predictor = allocator, predictor
        self.study = Study(goal)
        self.units = cluster.units
        self.now = 0.0
        self.running: dict[int, Segment] = {}
        self.queued: dict[int, Segment] = {}
        self.log: list[tuple[float, str, int | None, int, str]] = []
        self.intervals: list[Interval] = []
        self.best: list[tuple[float, float]] = []
        self.capacity = [(0.0, cluster.units)]
        self.restarts = self.forecasts = self.events = 0
        self._heap: list[tuple[float, int, int, int, int]] = []
        self._counter = self._versions = 0
        self._every = 0
        if predictor is not None and isinstance(scheduler, Forecasting):
            self._every = scheduler.forecast_every
        self._set_places()
        for time, units in cluster.capacity_changes:
            self._push(time, CAPACITY, units, 0)
        for time in cluster.preemptions:
            self._push(time, PREEMPT, 0, 0)

    def run(self, *, stop_at_target: bool) -> Replay:
        """Runs to the end."""
        deadline = self.study.goal.deadline_seconds
        reached: float | None = None
        self._fill()
        while self._heap and (self.running or self.queued or self._may_still_run()):
            time, _, kind, number, version = heappop(self._heap)
            if deadline is not None and time > deadline:
                self.now = deadline
                break
            if kind == REPORT:
                segment = self.running.get(number)
                if segment is None or segment.version != version:
                    continue
                self.now = time
                self.events += 1
                if self._report(segment) and reached is None:
                    reached = time
                    if stop_at_target:
                        break
            elif kind == CAPACITY:
                self.now = time
                self._change_capacity(number)
            else:
                self.now = time
                self._preempt()
        self._end()
        return self._result(reached)

    # -- reports -----------------------------------------------------------------------------

    def _report(self, segment: Segment) -> bool:
        """A step is done; whether it is the first to reach the target."""
        study, number = self.study, segment.number
        segment.step = step = segment.step + 1
        index = step - 1
        fresh = study.record(
            number,
            step,
            segment.values[index],
            segment.seconds[index] / segment.speed,
            segment.width,
        )
        if not fresh:  # trained again after an interruption
            self._go_on(segment)
            return False
        trial = study.trials[number]
        hit = False
        if study.best is trial and study.stale == 0 and trial.best_score == trial.score:
            hit = self._note_best(segment.values[index])
        if self._every and step % self._every == 0:
            self._forecast(segment)
        decision = self.scheduler.on_report(study, trial, self.now)
        action = decision.action
        self.log.append((self.now, action.value, number, step, decision.reason))
        if action is Action.CONTINUE and step < segment.until:
            self._go_on(segment)
            return hit
        self._leave(segment, decision)
        self._fill()
        return hit

    def _note_best(self, value: float) -> bool:
        if not self.best or self.best[-1][1] != value:
            self.best.append((self.now, value))
        goal = self.study.goal
        target = goal.target_score
        return target is not None and goal.direction.to_score(value) >= target

    def _forecast(self, segment: Segment) -> None:
        last = len(segment.values)
        if self.predictor is None or segment.step >= last:
            return
        trial = self.study.trials[segment.number]
        trial.forecast = self.predictor.predict(trial.observations, last_step=last)
        self.forecasts += 1

    def _go_on(self, segment: Segment) -> None:
        if self.allocator is not None and self._idle_units() > 0:
            self._reallocate()
            if self.running.get(segment.number) is not segment or segment.started == self.now:
                return  # it was resized or lost its place: its next step is already planned
        self._plan(segment, 0.0)

    def _leave(self, segment: Segment, decision: Decision) -> None:
        """The segment ends at a report: the trial is whole, stopped or paused."""
        number, step = segment.number, segment.step
        self._close(segment)
        whole = min(len(segment.values), self.scheduler.max_steps or len(segment.values))
        if step >= whole:
            state = TrialState.COMPLETED
        elif decision.action is Action.STOP:
            state = TrialState.PRUNED
        else:
            state = TrialState.PAUSED
            self.study.trials[number].checkpoint_step = step
        self.study.move(number, state)
        self.log.append((self.now, state.value, number, step, decision.reason))

    def _plan(self, segment: Segment, delay: float) -> None:
        """Plans the next report."""
        duration = segment.seconds[segment.step] / segment.speed
        self._push(self.now + delay + duration, REPORT, segment.number, segment.version)

    def _push(self, time: float, kind: int, number: int, version: int) -> None:
        self._counter += 1
        heappush(self._heap, (time, self._counter, kind, number, version))

    # -- places ------------------------------------------------------------------------------

    def _set_places(self) -> None:
        shares = self.cluster.max_share if self.allocator is not None else 1
        self.study.places = self.units * shares

    def _fill(self) -> None:
        """Asks the scheduler what to put on free places, and starts it."""
        free = self.study.places - len(self.running) - len(self.queued)
        if free > 0:
            group = self.scheduler.next(self.study, free, self.now)
            for number in group.dropped:
                trial = self.study.move(number, TrialState.PRUNED)
                self.log.append((self.now, "dropped", number, trial.step, group.reason))
            for member in group.members:
                self._take(member)
        if self.allocator is not None:
            self._reallocate()

    def _take(self, member: Member) -> None:
        if member.parent is not None:
            raise ValueError("the scheduler copies trials, but a trace does not hold copies")
        number = member.trial
        if number is None:
            number = self.study.add(self.traces.trials[len(self.study.trials)].params).number
        trial, trace = self.study.trials[number], self.traces.trials[number]
        step = trial.checkpoint_step
        whole = min(len(trace.values), self.scheduler.max_steps or len(trace.values))
        until = whole if member.until_step is None else min(member.until_step, whole)
        segment = Segment(
            number, trace.values, trace.seconds, step, max(until, step + 1), 0, member
        )
        if self.allocator is None:
            self._start(segment, ONE, ())
        else:
            self.queued[number] = segment

    def _start(self, segment: Segment, width: Fraction, units: tuple[int, ...]) -> None:
        number = segment.number
        trial = self.study.start(number, width=width, units=units, group=segment.member.group)
        first = trial.segments == 1
        delay = self.cluster.start_seconds if first else self.cluster.resume_seconds
        trial.startup_seconds = delay
        segment.width, segment.units = width, units
        segment.speed = self.cluster.speed(width)
        segment.started, segment.from_step = self.now, segment.step
        self._versions += 1
        segment.version = self._versions
        self.running[number] = segment
        self.log.append((self.now, "start", number, segment.step, segment.member.reason))
        self._plan(segment, delay)

    def _close(self, segment: Segment) -> None:
        del self.running[segment.number]
        self.intervals.append(
            Interval(
                segment.number,
                segment.started,
                self.now,
                segment.width,
                segment.units,
                segment.from_step,
                segment.step,
            )
        )

    def _interrupt(self, segment: Segment) -> None:
        """The trial loses its place now, and goes back to its newest checkpoint."""
        self._close(segment)
        every = self.cluster.checkpoint_every
        trial = self.study.trials[segment.number]
        trial.checkpoint_step = max(trial.checkpoint_step, segment.step // every * every)
        segment.step = trial.checkpoint_step

    # -- allocation --------------------------------------------------------------------------

    def _idle_units(self) -> float:
        return self.units - sum(float(segment.width) for segment in self.running.values())

    def _reallocate(self) -> None:
        """Asks the allocator who gets how much, and changes what differs."""
        if self.allocator is None or not (self.running or self.queued):
            return
        segments = {**self.running, **self.queued}
        members = tuple(
            Member(
                trial=number,
                until_step=segment.until,
                reason=segment.member.reason,
                group=segment.member.group,
            )
            for number, segment in sorted(segments.items())
        )
        allocation = self.allocator.allocate(
            self.study,
            TrialGroup(members, "what runs and what is to run"),
            self.cluster.capacity(self.units),
            self.now,
        )
        changes = changes_of(self.study, allocation)
        for number in (*changes.resized, *changes.paused):
            self._interrupt(segments[number])
        for number in changes.paused:
            self.study.move(number, TrialState.PAUSED)
            self.queued[number] = segments[number]
            self.log.append((self.now, "queued", number, segments[number].step, allocation.reason))
        for number in (*changes.resized, *changes.started):
            placement = allocation.placed[number]
            self.queued.pop(number, None)
            self.restarts += number in changes.resized
            self._start(segments[number], placement.width, placement.units)

    def _change_capacity(self, units: int) -> None:
        self.units = units
        self._set_places()
        self.capacity.append((self.now, units))
        self.log.append((self.now, "capacity", None, units, f"{units} units from now on"))
        if self.allocator is None:
            for number in sorted(self.running, reverse=True)[: max(len(self.running) - units, 0)]:
                self._lose(number, "its unit is gone")
        self._fill()

    def _preempt(self) -> None:
        if self.running:
            self._lose(max(self.running), "preempted")
            self._fill()

    def _lose(self, number: int, reason: str) -> None:
        self._interrupt(self.running[number])
        trial = self.study.move(number, TrialState.PAUSED)
        self.log.append((self.now, "preempted", number, trial.checkpoint_step, reason))

    # -- the end -----------------------------------------------------------------------------

    def _may_still_run(self) -> bool:
        return any(kind == CAPACITY for _, _, kind, _, _ in self._heap)

    def _end(self) -> None:
        for segment in list(self.running.values()):
            self._close(segment)

    def _result(self, reached: float | None) -> Replay:
        return Replay(
            study=self.study,
            log=tuple(self.log),
            intervals=tuple(self.intervals),
            makespan=max((item.end for item in self.intervals), default=0.0),
            time_to_target=reached,
            best=tuple(self.best),
            capacity=tuple(self.capacity),
            events=self.events,
            restarts=self.restarts,
            forecasts=self.forecasts,
        )
