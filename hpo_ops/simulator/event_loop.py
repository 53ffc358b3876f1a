"""The event loop: what happens when a step is done, a place is free or a unit is gone."""

from __future__ import annotations

import math
from heapq import heappop

from hpo_ops.core import (
    Allocator,
    Decision,
    Goal,
    Member,
    Scheduler,
    StaticAllocator,
    Study,
)
from hpo_ops.core.decisions import CONTINUE, STOP
from hpo_ops.core.trial_state import COMPLETED, PAUSED, PRUNED
from hpo_ops.curves import CurvePredictor
from hpo_ops.simulator.cluster_capacity import Cluster
from hpo_ops.simulator.cluster_state import ClusterState, LogLine, Segment, make_segment
from hpo_ops.simulator.event_queue import REPORT, EventQueue, Kind
from hpo_ops.simulator.replay_result import Replay
from hpo_ops.simulator.traces import Traces


class Loop:
    """The state of a replay."""

    def __init__(
        self,
        traces: Traces,
        scheduler: Scheduler,
        cluster: Cluster,
        goal: Goal,
        *,
        allocator: Allocator | None,
        predictor: CurvePredictor | None,
        rounds: bool,
    ) -> None:
        self._traces, self._scheduler, self._rounds = traces, scheduler, rounds
        self._study = Study(goal)
        self._log: list[LogLine] = []
        self._agenda = EventQueue()
        self._floor = ClusterState(self._study, cluster, allocator, self._agenda, self._log)
        self._has_allocator = allocator is not None
        self._asks_again = self._has_allocator and not isinstance(allocator, StaticAllocator)
        """Whether the allocator may answer otherwise when a trial has reported."""
        self._now = 0.0
        self._best: list[tuple[float, float]] = []
        self._capacity = [(0.0, cluster.units)]
        self._forecasts = 0
        self._predictor = predictor
        self._every = 0 if predictor is None else scheduler.forecast_every or 0
        for time, units in cluster.capacity_changes:
            self._agenda.push(time, Kind.CAPACITY, units)
        for time in cluster.preemptions:
            self._agenda.push(time, Kind.PREEMPT, 0)

    def run(self, *, stop_at_target: bool) -> Replay:
        """Runs to the end."""
        deadline = self._study.goal.deadline_seconds
        if deadline is None:
            deadline = math.inf
        reached: float | None = None
        floor, heap = self._floor, self._agenda.heap
        running, events = floor.running, 0
        self._fill()
        while heap and (running or floor.queued or self._agenda.has(Kind.CAPACITY)):
            time, _, kind, number, version = heappop(heap)
            if time > deadline:
                self._now = deadline
                break
            if kind is REPORT:
                segment = running.get(number)
                if segment is None or segment.version != version:
                    continue
                self._now = time
                events += 1
                if self._report(segment, time) and reached is None:
                    reached = time
                    if stop_at_target:
                        break
            elif kind is Kind.CAPACITY:
                self._now = time
                self._change_capacity(number)
            else:
                self._now = time
                self._preempt()
        for segment in list(running.values()):
            floor.close(segment, self._now)
        return self._result(reached, events)

    # -- reports -----------------------------------------------------------------------------

    def _report(self, segment: Segment, now: float) -> bool:
        """A step is done; whether it is the first to reach the target."""
        study, number, index = self._study, segment.number, segment.done
        step, value = segment.steps[index], segment.values[index]
        segment.done = done = index + 1
        if not study.record(number, step, value, segment.duration, segment.width):
            self._go_on(segment)  # trained again after an interruption
            return False
        trial = study.trials[number]
        is_hit = False
        if study.best is trial and study.stale == 0 and trial.best_step == step:
            is_hit = self._note_best(value)
        if self._every and step % self._every == 0:
            self._forecast(segment)
        decision = self._scheduler.on_report(study, trial, now)
        action = decision.action
        self._log.append((now, action, number, step, decision.reason))
        if action is not CONTINUE or done >= segment.until:
            self._leave(segment, decision)
            self._fill()
        elif self._asks_again:
            self._go_on(segment)
        else:
            self._floor.plan(segment, now)
        return is_hit

    def _note_best(self, value: float) -> bool:
        if not self._best or self._best[-1][1] != value:
            self._best.append((self._now, value))
        goal = self._study.goal
        target = goal.target_score
        return target is not None and goal.direction.to_score(value) >= target

    def _forecast(self, segment: Segment) -> None:
        if self._predictor is None or segment.done >= len(segment.steps):
            return
        seen = self._study.trials[segment.number].observations
        forecast = self._predictor.predict(seen, last_step=segment.steps[-1])
        self._study.set_forecast(segment.number, forecast)
        self._forecasts += 1

    def _go_on(self, segment: Segment) -> None:
        version = segment.version
        if self._asks_again and self._floor.has_idle_units:
            self._floor.reallocate(self._now)
            is_running = self._floor.running.get(segment.number) is segment
            if not is_running or segment.version != version:
                return  # it was resized or lost its place: its next step is already planned
        self._floor.plan(segment, self._now)

    def _leave(self, segment: Segment, decision: Decision) -> None:
        """The segment ends at a report: the trial is whole, stopped or paused."""
        number, now = segment.number, self._now
        step = self._floor.close(segment, now)
        if segment.done >= segment.whole:
            state = COMPLETED
        elif decision.action is STOP:
            state = PRUNED
        else:
            state = PAUSED
            self._study.trials[number].checkpoint_step = step
        self._study.move(number, state)
        self._log.append((now, state, number, step, decision.reason))

    # -- places ------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Asks the scheduler what to put on free places, and starts it."""
        floor, study = self._floor, self._study
        free = study.slots - len(floor.running) - len(floor.queued)
        if free > 0 and not (self._rounds and (floor.running or floor.queued)):
            group = self._scheduler.next(study, free, self._now)
            for number in group.dropped:
                trial = study.move(number, PRUNED)
                self._log.append((self._now, "dropped", number, trial.step, group.reason))
            for member in group.members:
                self._take(member)
        if self._has_allocator:
            floor.reallocate(self._now)

    def _take(self, member: Member) -> None:
        if member.parent is not None:
            raise ValueError("the scheduler copies trials, but a trace does not hold copies")
        number, study, traces = member.trial, self._study, self._traces.trials
        if number is None:
            number, from_step = len(study.trials), 0
            study.add(traces[number].params)
        else:
            from_step = study.trials[number].checkpoint_step
        segment = make_segment(
            number, traces[number], member, from_step, self._scheduler.max_steps
        )
        self._floor.take(segment, self._now)

    def _change_capacity(self, units: int) -> None:
        floor = self._floor
        floor.set_units(units)
        self._capacity.append((self._now, units))
        self._log.append((self._now, "capacity", None, units, f"{units} units from now on"))
        if not self._has_allocator:
            excess = max(len(floor.running) - units, 0)
            for number in sorted(floor.running, reverse=True)[:excess]:
                floor.lose(number, "its unit is gone", self._now)
        self._fill()

    def _preempt(self) -> None:
        if self._floor.running:
            self._floor.lose(max(self._floor.running), "preempted", self._now)
            self._fill()

    # -- the end -----------------------------------------------------------------------------

    def _result(self, reached: float | None, events: int) -> Replay:
        intervals = tuple(self._floor.intervals)
        return Replay(
            study=self._study,
            log=tuple(self._log),
            intervals=intervals,
            makespan=max((item.end for item in intervals), default=0.0),
            time_to_target=reached,
            best=tuple(self._best),
            capacity=tuple(self._capacity),
            events=events,
            restarts=self._floor.restarts,
            forecasts=self._forecasts,
        )
