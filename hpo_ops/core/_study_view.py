"""The view of a study that policies read: its trials, and incrementally updated indexes."""

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
    """The possible directions of a metric: larger or smaller values are better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"

    def to_score(self, value: float) -> float:
        """Converts a value of the metric to a score (larger scores are better)."""
        return value if self is MAXIMIZE else -value

    def to_value(self, score: float) -> float:
        """Converts a score back to a value of the metric."""
        return self.to_score(score)


MAXIMIZE = Direction.MAXIMIZE
"""Global for the enum member: a global is faster to look up, which every report does."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """The objective of a study and its budget.

    Attributes:
        direction: The direction of the objective: maximize or minimize.
        trials: Largest number of trials; under cross-validation, each fold counts as a trial.
        target: Value of the objective at which the study ends; None for no target.
        deadline_seconds: Seconds from the start of the study after which no trial runs; None for
            no deadline.
        at_barrier: Whether the scheduler decides only between rounds (batches of trials that
            wait for each other), so that the same seed gives the same study.
        folds: Number of folds of each trial; 1 without cross-validation.
    """

    direction: Direction = Direction.MAXIMIZE
    trials: int
    target: float | None = None
    deadline_seconds: float | None = None
    at_barrier: bool = False
    folds: int = 1

    def by_trial(self) -> Goal:
        """Returns the same goal with trials counted instead of folds.

        It is the goal of a study of aggregated trials (the mean of all folds of a trial).
        """
        return replace(self, trials=self.trials // self.folds, folds=1)

    def name_of(self, number: int) -> str:
        """Returns the display name of the trial or fold with a number.

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
        """Returns the seconds until the deadline (negative after it), or infinity without one."""
        return math.inf if self.deadline_seconds is None else self.deadline_seconds - now


class Index(Protocol):
    """Data derived from the trials of a study, updated at every report and change of state.

    Policies query indexes instead of visiting all trials.
    """

    def reported(self, trial: Trial, before: int) -> None:
        """Updates the index after a trial has a new observation.

        Args:
            trial: The trial, which already includes the observation.
            before: The trial's previous reported step; -1 if this is its first report.
        """
        ...

    def moved(self, trial: Trial, before: TrialState) -> None:
        """Updates the index after a trial has changed its state.

        Args:
            trial: The trial in its new state.
            before: The trial's previous state.
        """
        ...


AnyIndex = TypeVar("AnyIndex", bound=Index)


class Study:
    """The trials of a study, with rankings and indexes that are updated at every change.

    The view is mutable and never copied, so that a query costs O(log n) or less. Policies only
    read the view. The ledger fills the view of a live study, and the simulator's event loop fills
    the view of a simulated study. The class is not thread-safe.
    """

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self.stale = 0
        """Number of trials that have finished since the best score last improved."""
        self._by_state: dict[TrialState, dict[int, Trial]] = {state: {} for state in TrialState}
        self.slots = 0
        """Number of trials that may run at the same time now; 0 if it is unknown."""
        self.forecast_log: list[int] = []
        """Trial number of every forecast so far, in the order in which forecasts arrived."""
        self._rankings: dict[int, Ranking] = {}
        self._ranked: list[int] = []
        self._indexes: dict[Hashable, Any] = {}
        """Indexes by key; all users of a key create the same kind of index."""
        # Bound methods of the indexes: binding them once saves two lookups per report and index.
        self._on_report: list[Callable[[Trial, int], None]] = []
        self._on_move: list[Callable[[Trial, TrialState], None]] = []

    # -- queries ---------------------------------------------------------------------------

    def in_state(self, state: TrialState) -> Mapping[int, Trial]:
        """Returns the trials in a state by number, ordered by when they entered the state."""
        return self._by_state[state]

    @property
    def finished(self) -> int:
        """Number of finished trials: completed, pruned or failed."""
        return sum(len(self._by_state[state]) for state in FINISHED)

    @property
    def unstarted(self) -> int:
        """Number of trials (or folds) that may still be created.

        Missing folds of a trial that has other folds are counted even if the budget is spent.
        """
        goal, count = self.goal, len(self.trials)
        if count < goal.trials and goal.folds == 1:  # the usual case
            return goal.trials - count
        return max(goal.trials - count, -count % goal.folds)

    def name_of(self, number: int) -> str:
        """Returns the display name of the trial, fold or retraining with a number.

        A retraining trains the best parameters of a cross-validated study on all data.
        """
        if self.trials[number].is_retraining:
            return "the retraining"
        return self.goal.name_of(number)

    def ranking_at(self, step: int) -> Ranking:
        """Returns the ranking of all trials' scores, each the first reported at or after a step.

        The first query for a step visits every trial; later reports update the ranking.
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
        """Returns the study's index with the given key, and builds the index at the first call.

        Args:
            key: Name of the index; calls with the same key must create the same kind of index.
            make: Creates an empty index, to which all trials are then added.
        """
        index: AnyIndex | None = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = make()
            self._replay(index)
            self._on_report.append(index.reported)
            self._on_move.append(index.moved)
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

    # -- changes -----------------------------------------------------------------------------

    def add(self, params: Mapping[str, ParamValue] | None = None) -> Trial:
        """Adds a trial with the next free number, in the state WAITING, and returns the trial."""
        number = len(self.trials)
        trial = Trial(number, params or {})
        self.trials.append(trial)
        self._by_state[WAITING][number] = trial
        return trial

    def move(self, number: int, state: TrialState, *, decided_step: int | None = None) -> Trial:
        """Moves a trial into a state, and releases its units unless the state is RUNNING.

        Args:
            number: Number of the trial.
            state: The trial's new state.
            decided_step: For a pause, the step of the report on which the pause was decided.
        """
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
        for on_move in self._on_move:
            on_move(trial, before)
        return trial

    def start(
        self,
        number: int,
        width: Fraction = ONE_UNIT,
        units: tuple[int, ...] = (),
        group: int = 0,
    ) -> Trial:
        """Starts a segment (one uninterrupted execution) of a trial.

        The trial moves to the state RUNNING and holds the given units.

        Args:
            number: Number of the trial.
            width: Number of units of the trial, or its fraction of one unit.
            units: Indexes of the units; empty if no allocator places trials.
            group: Number of the trial group in which the trial runs.
        """
        trial = self.trials[number]
        trial.observations_at_start = len(trial.observations)
        self.move(number, RUNNING)
        trial.width = width
        trial.units = units
        trial.group = group
        trial.segments += 1
        return trial

    def set_forecast(self, number: int, forecast: Forecast | None) -> None:
        """Records the newest forecast of a trial; None means that the fit of its curve failed."""
        self.trials[number].forecast = forecast
        self.forecast_log.append(number)

    def end_segment(self, number: int) -> None:
        """Releases the units of a trial whose segment has ended; the state does not change."""
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
        """Records a report, and returns whether the report was new.

        A report of a step at or before the trial's last step is a repetition and is ignored. A
        NaN value gets the score minus infinity.

        Args:
            number: Number of the trial.
            step: The reported step.
            value: The objective's value, as the training reported it.
            seconds: Training time since the previous report.
            width: Width of the trial during the step; by default its current width, or one unit
                if it holds none.
        """
        trial = self.trials[number]
        seen = trial.observations
        before = trial.step if seen else -1
        if step <= before:
            return False
        if math.isnan(value):
            score = -math.inf
        else:  # `Direction.to_score` inlined: the call costs more than its body
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
        for on_report in self._on_report:
            on_report(trial, before)
        return True

    def _ranked_between(self, before: int, step: int) -> Iterable[int]:
        """Returns all steps after ``before`` and up to ``step`` that may have a ranking.

        Every step with a ranking is included; some of the returned steps may have none.
        """
        if step <= before + 2:  # the next step, or the first: the usual case
            return range(before + 1, step + 1)
        low = bisect_right(self._ranked, before)
        return self._ranked[low : bisect_right(self._ranked, step, low)]
