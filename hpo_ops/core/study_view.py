"""A study as policies see it: trials, and indexes that are kept up as reports come in."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Protocol, TypeVar

from hpo_ops.core.score_ranking import Ranking
from hpo_ops.core.trial_state import (
    FINISHED,
    NO_UNIT,
    ONE_UNIT,
    RUNNING,
    WAITING,
    Forecast,
    Trial,
    TrialState,
    as_observation,
)
from hpo_ops.protocol import ParamValue


class Direction(StrEnum):
    """Which way a metric is better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"

    def to_score(self, value: float) -> float:
        """The value as a score: greater is better."""
        return value if self is MAXIMIZE else -value

    def to_value(self, score: float) -> float:
        """The value behind a score."""
        return self.to_score(score)


MAXIMIZE = Direction.MAXIMIZE  # a member is looked up slowly, and every report asks for it


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a study is after and how much it may spend.

    Attributes:
        direction: Which way the metric is better.
        trials: Most trials to start; with folds each fold counts.
        target: Value of the metric that ends the study.
        deadline_seconds: Study time after which nothing runs.
        at_barrier: Decisions are made between rounds only: a seed gives the same study twice.
        folds: Folds that each trial is trained in; 1 without folds.
    """

    direction: Direction = Direction.MAXIMIZE
    trials: int
    target: float | None = None
    deadline_seconds: float | None = None
    at_barrier: bool = False
    folds: int = 1

    def by_trial(self) -> Goal:
        """The goal as people state it, in whole trials."""
        return replace(self, trials=self.trials // self.folds, folds=1)

    def name_of(self, number: int) -> str:
        """How people call the trial of a number.

        >>> Goal(trials=4).name_of(3), Goal(trials=20, folds=5).name_of(16)
        ('trial 3', 'fold 2 of trial 3')
        """
        if self.folds == 1:
            return f"trial {number}"
        trial, fold = divmod(number, self.folds)
        return f"fold {fold + 1} of trial {trial}"

    @property
    def target_score(self) -> float | None:
        return None if self.target is None else self.direction.to_score(self.target)

    def seconds_left(self, now: float) -> float:
        """Study time until the deadline; endless without one."""
        return math.inf if self.deadline_seconds is None else self.deadline_seconds - now


class Index(Protocol):
    """What a policy wants to have kept up about a study, so that a question costs O(log n)."""

    def reported(self, trial: Trial, before: int) -> None:
        """The trial has a new last observation; the one before was at this step, -1 if none."""
        ...

    def moved(self, trial: Trial, before: TrialState) -> None:
        """The trial has come into its state from another."""
        ...


AnyIndex = TypeVar("AnyIndex", bound=Index)


class Study:
    """A view of a study that is kept up, never copied: each question costs O(log n) or less.

    A live study's view is filled from the ledger, a simulated one's by the event loop.
    """

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self.stale = 0
        """Trials that ended since the best score was last beaten."""
        self._by_state: dict[TrialState, dict[int, Trial]] = {state: {} for state in TrialState}
        self.slots = 0
        """Slots: trials that may run at the same time now; 0 where unknown."""
        self.forecast_log: list[int] = []
        """Number of the trial of every forecast so far, in order of arrival."""
        self._rankings: dict[int, Ranking] = {}
        self._ranked: list[int] = []
        self._indexes: dict[Hashable, Any] = {}
        """Whatever each key's users make; one key, one kind."""
        self._tell_report: list[Callable[[Trial, int], None]] = []
        self._tell_move: list[Callable[[Trial, TrialState], None]] = []
        """What every index does with a report and with a move."""

    # -- questions ---------------------------------------------------------------------------

    def in_state(self, state: TrialState) -> Mapping[int, Trial]:
        """Trials in a state by number, in the order in which they got into it."""
        return self._by_state[state]

    @property
    def finished(self) -> int:
        """Trials that have ended, whichever way."""
        return sum(len(self._by_state[state]) for state in FINISHED)

    @property
    def unstarted(self) -> int:
        """Trials that may still be created; one that has begun gets all of its folds."""
        goal, count = self.goal, len(self.trials)
        if count < goal.trials and goal.folds == 1:  # as is usual
            return goal.trials - count
        return max(goal.trials - count, -count % goal.folds)

    def name_of(self, number: int) -> str:
        """How people call the trial of a number."""
        if self.trials[number].is_retraining:
            return "the retraining"
        return self.goal.name_of(number)

    def ranking_at(self, step: int) -> Ranking:
        """The scores that trials first reported at or after a step.

        The first question about a step looks at every trial; from then on the ranking is kept up.
        """
        ranking = self._rankings.get(step)
        if ranking is None:
            ranking = self._rankings[step] = Ranking()
            insort(self._ranked, step)
            for trial in self.trials:
                if (score := trial.score_at(step)) is not None:
                    ranking.add(score)
        return ranking

    def index(self, key: Hashable, make: Callable[[], AnyIndex]) -> AnyIndex:
        """The index under a key, made from every trial at the first question and then kept up.

        Args:
            key: Names the index; whoever uses the same key must make the same kind.
            make: Makes it, empty.
        """
        index: AnyIndex | None = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = make()
            self._replay(index)
            self._tell_report.append(index.reported)
            self._tell_move.append(index.moved)
        return index

    def _replay(self, index: Index) -> None:
        for trial in self.trials:
            seen, trial.observations = trial.observations, []
            before = -1
            for observation in seen:
                trial.observations.append(observation)
                trial.step = observation.step
                index.reported(trial, before)
                before = observation.step
        for state in TrialState:
            for trial in self._by_state[state].values():
                index.moved(trial, TrialState.WAITING)

    # -- what happened -----------------------------------------------------------------------

    def add(self, params: Mapping[str, ParamValue] | None = None) -> Trial:
        """Adds the next trial, waiting."""
        number = len(self.trials)
        trial = Trial(number, params or {})
        self.trials.append(trial)
        self._by_state[WAITING][number] = trial
        return trial

    def move(self, number: int, state: TrialState, *, decided_step: int | None = None) -> Trial:
        """Puts a trial into a state."""
        trial, by_state = self.trials[number], self._by_state
        before = trial.state
        del by_state[before][number]
        trial.state = state
        trial.decided_step = decided_step
        by_state[state][number] = trial
        if state is not RUNNING:
            trial.width = NO_UNIT
            trial.units = ()
            if state in FINISHED and before not in FINISHED and trial is not self.best:
                self.stale += 1
        for tell in self._tell_move:
            tell(trial, before)
        return trial

    def start(
        self,
        number: int,
        width: Fraction = ONE_UNIT,
        units: tuple[int, ...] = (),
        group: int = 0,
    ) -> Trial:
        """A segment of the trial starts with these resources."""
        trial = self.trials[number]
        trial.observations_at_start = len(trial.observations)
        self.move(number, RUNNING)
        trial.width = width
        trial.units = units
        trial.group = group
        trial.segments += 1
        return trial

    def set_forecast(self, number: int, forecast: Forecast | None) -> None:
        """The trial has a new forecast; None where it could not be made."""
        self.trials[number].forecast = forecast
        self.forecast_log.append(number)

    def end_segment(self, number: int) -> None:
        """The trial's segment has ended: it holds nothing, whatever becomes of it."""
        self.trials[number].width = NO_UNIT
        self.trials[number].units = ()

    def record(
        self,
        number: int,
        step: int,
        value: float,
        seconds: float = 0.0,
        width: Fraction | None = None,
    ) -> bool:
        """Records a report; a step that is not after the last one is a repetition, and ignored.

        A value that is not a number is a score worse than any other. The width is what the trial
        holds now, unless it is said; 1 for a trial that is not running.
        """
        trial = self.trials[number]
        seen = trial.observations
        before = trial.step if seen else -1
        if step <= before:
            return False
        if value != value:  # no number, in less time than math.isnan takes
            score = -math.inf
        else:  # as `to_score` has it; a call costs more than that, and every report asks
            score = value if self.goal.direction is MAXIMIZE else -value
        if width is None:
            width = trial.width or ONE_UNIT
        observation = as_observation((step, score, seconds, width))
        seen.append(observation)
        trial.step = step
        trial.seconds += seconds
        trial.unit_seconds += seconds if width is ONE_UNIT else observation.unit_seconds
        if trial.best_score is None or score > trial.best_score:
            best = None if self.best is None else self.best.best_score
            trial.best_score = score
            trial.best_step = step
            if best is None or score > best:
                self.best = trial
                self.stale = 0
        if self._rankings:
            for ranked in self._ranked_between(before, step):
                if (ranking := self._rankings.get(ranked)) is not None:
                    ranking.add(score)
        for tell in self._tell_report:
            tell(trial, before)
        return True

    def _ranked_between(self, before: int, step: int) -> Iterable[int]:
        """The steps after one and up to another, at least those that have a ranking."""
        if step <= before + 2:  # the next step, or the first, as is usual
            return range(before + 1, step + 1)
        low = bisect_right(self._ranked, before)
        return self._ranked[low : bisect_right(self._ranked, step, low)]
