"""Live studies in tests: fake agents that train by given curves, on the order of virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from hpo_ops.client import NextActionKind
from hpo_ops.core import TrialState
from hpo_ops.curves.forecast import LEVELS
from hpo_ops.curves.forecast_process import fit
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.protocol import (
    Action,
    Assignment,
    Checkpoint,
    CurveForecast,
    Outcome,
    Report,
    SegmentResult,
)

Said = tuple[str, int, int, str]
"""Action, trial, step and reason."""


def forecast_with(chance: float, *, of: float, after: int, by: int) -> CurveForecast:
    """A forecast that gives a score this chance at a step."""
    row = [of + level - (1 - chance) for level in LEVELS]
    return CurveForecast(step=after, steps=[by], quantiles=[row])


@dataclass
class FakeAgents:
    """Trains every trial of a rolling study by its curve, a report a step.

    Attributes:
        services: The gateway.
        study_id: The study.
        curves: What each trial reports, by number.
        seconds: How long a step of a trial takes, by number; on one unit.
        said: What the gateway decided, other than to go on.
    """

    services: Gateway
    study_id: int
    curves: Sequence[Sequence[float]]
    seconds: Callable[[int], float] = lambda _: 1.0
    said: list[Said] = field(default_factory=list)
    now: float = 0.0
    segments: dict[int, Assignment] = field(default_factory=dict)
    widths: list[tuple[int, float]] = field(default_factory=list)
    _agenda: list[tuple[float, int, int, int]] = field(default_factory=list)
    _count: int = 0

    def run(self) -> None:
        """Runs the study to its end."""
        self.fill()
        while self._agenda:
            self.now, _, trial, step = heappop(self._agenda)
            self.step(trial, step)

    def fill(self) -> None:
        """Starts what has a place, in the order in which the places were given."""
        waiting = [n for n in range(len(self.curves)) if n not in self.segments]
        for number in waiting:  # the first to ask fills all places
            if self._turn(number) is NextActionKind.RUN:
                continue
        with self.services.ledger.study(self.study_id) as session:
            placed = list(session.view.in_state(TrialState.RUNNING))
        for number in placed:
            if number in self.segments and not self._is_planned(number):
                self._plan(number, self.segments[number].from_step + 1)

    def step(self, trial: int, step: int) -> None:
        """A trial has trained a step."""
        assignment = self.segments[trial]
        report = Report(
            step=step,
            metrics={"accuracy": self.curves[trial][step - 1]},
            seconds=self._duration(trial),
        )
        order = assignment.forecasts
        if order is not None and step % order.every == 0 and step < order.last_step:
            curve = [
                *self.services.segments.curve(assignment.segment),
                (step, report.metrics["accuracy"]),
            ]
            self.services.segments.forecast(assignment.segment, fit(order, curve))
        control = self.services.segments.report(assignment.segment, [report])
        if control.action is not Action.CONTINUE:
            self.said.append((control.action, trial, step, control.reason))
        elif step < (assignment.until_step or 0):
            self._plan(trial, step + 1)
            return
        saved = Checkpoint(step=step, uri=f"s3://x/{trial}/{step}", files=1, bytes=1)
        self.services.segments.checkpoint(assignment.segment, saved)
        result = SegmentResult(
            outcome=control.action.outcome or Outcome.COMPLETED, step=step, reason=control.reason
        )
        self.services.segments.finish(assignment.segment, result)
        del self.segments[trial]
        self.fill()

    def _turn(self, number: int) -> NextActionKind:
        turn = self.services.next_actions.next_action(
            self.study_id, number, key=f"{number}/{self._count}"
        )
        if turn.assignment is not None:
            self.segments[number] = turn.assignment
            self.widths.append((number, turn.assignment.resources.get("units", 1.0)))
        return turn.kind

    def _is_planned(self, number: int) -> bool:
        return any(trial == number for _, _, trial, _ in self._agenda)

    def _duration(self, trial: int) -> float:
        return self.seconds(trial) / self.segments[trial].resources.get("units", 1.0)

    def _plan(self, trial: int, step: int) -> None:
        self._count += 1
        entry = (self.now + self._duration(trial), self._count, trial, step)
        heappush(self._agenda, entry)
