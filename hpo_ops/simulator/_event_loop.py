"""Runs the event loop of a simulation.

The events are reports, changes of capacity (the number of resource units) and preemptions. After
events that free a slot, the scheduler chooses the next trials.
"""

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
from hpo_ops.simulator._cluster_capacity import Cluster
from hpo_ops.simulator._cluster_state import ClusterState, LogLine, Segment, make_segment
from hpo_ops.simulator._event_queue import REPORT, EventQueue, Kind
from hpo_ops.simulator._replay_result import Replay
from hpo_ops.simulator.traces import Traces


class EventLoop:
    """A simulation of one study, from its first trial to its end."""

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
        self._queue = EventQueue()
        self._cluster = ClusterState(self._study, cluster, allocator, self._queue, self._log)
        self._has_allocator = allocator is not None
        self._reallocates = self._has_allocator and not isinstance(allocator, StaticAllocator)
        """Whether the allocator is called again after a report that ends no segment."""
        self._now = 0.0
        self._best: list[tuple[float, float]] = []
        self._capacity = [(0.0, cluster.units)]
        self._forecasts = 0
        self._predictor = predictor
        self._every = 0 if predictor is None else scheduler.forecast_every or 0
        for time, units in cluster.capacity_changes:
            self._queue.push(time, Kind.CAPACITY, units)
        for time in cluster.preemptions:
            self._queue.push(time, Kind.PREEMPT, 0)

    def run(self, *, stop_at_target: bool) -> Replay:
        """Runs the study to its deadline, its target or the end of its trials; returns the replay.

        Args:
            stop_at_target: Whether the study ends when its target is reached.
        """
        deadline = self._study.goal.deadline_seconds
        if deadline is None:
            deadline = math.inf
        reached: float | None = None
        cluster, heap = self._cluster, self._queue.heap
        running, events = cluster.running, 0
        self._fill()
        while heap and (running or cluster.queued or self._queue.has(Kind.CAPACITY)):
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
            cluster.close(segment, self._now)
        return self._result(reached, events)

    # -- reports -----------------------------------------------------------------------------

    def _report(self, segment: Segment, now: float) -> bool:
        """Processes the next report of a segment.

        Returns:
            Whether the report is the best value of the study so far and reaches the target.
        """
        study, number, index = self._study, segment.number, segment.done
        step, value = segment.steps[index], segment.values[index]
        segment.done = done = index + 1
        if not study.record(number, step, value, segment.duration, segment.width):
            self._continue(segment)  # the step was trained again after an interruption
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
            self._end_segment(segment, decision)
            self._fill()
        elif self._reallocates:
            self._continue(segment)
        else:
            self._cluster.plan(segment, now)
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

    def _continue(self, segment: Segment) -> None:
        version = segment.version
        if self._reallocates and self._cluster.has_idle_units:
            self._cluster.reallocate(self._now)
            is_running = self._cluster.running.get(segment.number) is segment
            if not is_running or segment.version != version:
                return  # resized (next report is scheduled) or paused
        self._cluster.plan(segment, self._now)

    def _end_segment(self, segment: Segment, decision: Decision) -> None:
        """Ends a segment after a report, and marks its trial as completed, stopped or paused."""
        number, now = segment.number, self._now
        step = self._cluster.close(segment, now)
        if segment.done >= segment.full_length:
            state = COMPLETED
        elif decision.action is STOP:
            state = PRUNED
        else:
            state = PAUSED
            self._study.trials[number].checkpoint_step = step
        self._study.move(number, state)
        self._log.append((now, state, number, step, decision.reason))

    # -- slots -------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Starts the trials that the scheduler chooses for free slots.

        Trials that the scheduler drops are marked as pruned.

        In rounds (batches of trials with a barrier after each), slots are filled only when all
        slots are free.
        """
        cluster, study = self._cluster, self._study
        free = study.slots - len(cluster.running) - len(cluster.queued)
        if free > 0 and not (self._rounds and (cluster.running or cluster.queued)):
            group = self._scheduler.next(study, free, self._now)
            for number in group.dropped:
                trial = study.move(number, PRUNED)
                self._log.append((self._now, "dropped", number, trial.step, group.reason))
            for member in group.members:
                self._take(member)
        if self._has_allocator:
            cluster.reallocate(self._now)

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
        self._cluster.take(segment, self._now)

    def _change_capacity(self, units: int) -> None:
        cluster = self._cluster
        cluster.set_units(units)
        self._capacity.append((self._now, units))
        self._log.append((self._now, "capacity", None, units, f"{units} units from now on"))
        if not self._has_allocator:
            excess = max(len(cluster.running) - units, 0)
            for number in sorted(cluster.running, reverse=True)[:excess]:
                cluster.lose(number, "its unit was removed", self._now)
        self._fill()

    def _preempt(self) -> None:
        if self._cluster.running:
            self._cluster.lose(max(self._cluster.running), "preempted", self._now)
            self._fill()

    # -- the end -----------------------------------------------------------------------------

    def _result(self, reached: float | None, events: int) -> Replay:
        intervals = tuple(self._cluster.intervals)
        return Replay(
            study=self._study,
            log=tuple(self._log),
            intervals=intervals,
            makespan=max((item.end for item in intervals), default=0.0),
            time_to_target=reached,
            best=tuple(self._best),
            capacity=tuple(self._capacity),
            events=events,
            restarts=self._cluster.restarts,
            forecasts=self._forecasts,
        )
