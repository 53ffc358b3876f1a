"""The event loop: what happens when a step is done, a place is free or a unit is gone."""

from __future__ import annotations

import math
from heapq import heappop

from hpo_ops.core import (
    Action,
    Allocator,
    Decision,
    Forecasting,
    Goal,
    Member,
    Scheduler,
    Study,
    TrialState,
)
from hpo_ops.curves import CurvePredictor
from hpo_ops.simulator.agenda import REPORT, Agenda, Kind
from hpo_ops.simulator.cluster import Cluster
from hpo_ops.simulator.floor import Floor, LogLine, Segment, make_segment
from hpo_ops.simulator.replay import Replay
from hpo_ops.simulator.traces import Traces

CONTINUE = Action.CONTINUE  # a member is looked up slowly, and every report asks for it


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
        self._agenda = Agenda()
        self._floor = Floor(self._study, cluster, allocator, self._agenda, self._log)
        self._has_allocator = allocator is not None
        self._now = 0.0
        self._best: list[tuple[float, float]] = []
        self._capacity = [(0.0, cluster.units)]
        self._forecasts = self._events = 0
        self._predictor = predictor
        self._every = 0
        if predictor is not None and isinstance(scheduler, Forecasting):
            self._every = scheduler.forecast_every
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
        running, heap = self._floor.running, self._agenda.heap
        self._fill()
        while heap and (running or self._floor.queued or self._agenda.has(Kind.CAPACITY)):
            time, _, kind, number, version = heappop(heap)
            if time > deadline:
                self._now = deadline
                break
            if kind is REPORT:
                segment = running.get(number)
                if segment is None or segment.version != version:
                    continue
                self._now = time
                self._events += 1
                if self._report(segment) and reached is None:
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
            self._floor.close(segment, self._now)
        return self._result(reached)

    # -- reports -----------------------------------------------------------------------------

    def _report(self, segment: Segment) -> bool:
        """A step is done; whether it is the first to reach the target."""
        study, number, index = self._study, segment.number, segment.done
        segment.done = index + 1
        step, value = segment.steps[index], segment.values[index]
        if not study.record(number, step, value, segment.duration, segment.width):
            self._go_on(segment)  # trained again after an interruption
            return False
        trial = study.trials[number]
        is_hit = False
        if study.best is trial and study.stale == 0 and trial.best_step == step:
            is_hit = self._note_best(value)
        if self._every and step % self._every == 0:
            self._forecast(segment)
        decision = self._scheduler.on_report(study, trial, self._now)
        action = decision.action
        self._log.append((self._now, action, number, step, decision.reason))
        if action is CONTINUE and segment.done < segment.until:
            if self._has_allocator:
                self._go_on(segment)
            else:
                self._floor.plan(segment, self._now)
            return is_hit
        self._leave(segment, decision)
        self._fill()
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
        trial = self._study.trials[segment.number]
        trial.forecast = self._predictor.predict(trial.observations, last_step=segment.steps[-1])
        self._forecasts += 1

    def _go_on(self, segment: Segment) -> None:
        version = segment.version
        if self._has_allocator and self._floor.has_idle_units:
            self._floor.reallocate(self._now)
            is_running = self._floor.running.get(segment.number) is segment
            if not is_running or segment.version != version:
                return  # it was resized or lost its place: its next step is already planned
        self._floor.plan(segment, self._now)

    def _leave(self, segment: Segment, decision: Decision) -> None:
        """The segment ends at a report: the trial is whole, stopped or paused."""
        number, step = segment.number, segment.step
        self._floor.close(segment, self._now)
        if segment.done >= segment.whole:
            state = TrialState.COMPLETED
        elif decision.action is Action.STOP:
            state = TrialState.PRUNED
        else:
            state = TrialState.PAUSED
            self._study.trials[number].checkpoint_step = step
        self._study.move(number, state)
        self._log.append((self._now, state, number, step, decision.reason))

    # -- places ------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Asks the scheduler what to put on free places, and starts it."""
        floor, free = self._floor, self._floor.free
        if free > 0 and not (self._rounds and (floor.running or floor.queued)):
            group = self._scheduler.next(self._study, free, self._now)
            for number in group.dropped:
                trial = self._study.move(number, TrialState.PRUNED)
                self._log.append((self._now, "dropped", number, trial.step, group.reason))
            for member in group.members:
                self._take(member)
        if self._has_allocator:
            floor.reallocate(self._now)

    def _take(self, member: Member) -> None:
        if member.parent is not None:
            raise ValueError("the scheduler copies trials, but a trace does not hold copies")
        number, study = member.trial, self._study
        if number is None:
            number = study.add(self._traces.trials[len(study.trials)].params).number
        segment = make_segment(
            number,
            self._traces.trials[number],
            member,
            from_step=study.trials[number].checkpoint_step,
            max_steps=self._scheduler.max_steps,
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

    def _result(self, reached: float | None) -> Replay:
        intervals = tuple(self._floor.intervals)
        return Replay(
            study=self._study,
            log=tuple(self._log),
            intervals=intervals,
            makespan=max((item.end for item in intervals), default=0.0),
            time_to_target=reached,
            best=tuple(self._best),
            capacity=tuple(self._capacity),
            events=self._events,
            restarts=self._floor.restarts,
            forecasts=self._forecasts,
        )
