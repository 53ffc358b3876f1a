"""A study as policies see it: trials, and indexes that are kept up as reports come in."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from hpo_ops.core.trial import Observation, Trial, TrialState
from hpo_ops.protocol import ParamValue


class Direction(StrEnum):
    """Which way a metric is better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"

    def to_score(self, value: float) -> float:
        """The value as a score: greater is better."""
        return value if self is Direction.MAXIMIZE else -value

    def to_value(self, score: float) -> float:
        """The value behind a score."""
        return self.to_score(score)


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a study is after and how much it may spend.

    Attributes:
        direction: Which way the metric is better.
        trials: Most trials to start.
        target: Value of the metric that ends the study.
        deadline_seconds: Study time after which nothing runs.
        at_barrier: Decisions are made between rounds only: a seed gives the same study twice.
    """

    direction: Direction = Direction.MAXIMIZE
    trials: int
    target: float | None = None
    deadline_seconds: float | None = None
    at_barrier: bool = False

    @property
    def target_score(self) -> float | None:
        return None if self.target is None else self.direction.to_score(self.target)


class Ranking:
    """Scores in order, each with a rank in logarithmic time."""

    def __init__(self) -> None:
        self._scores: list[float] = []

    def __len__(self) -> int:
        return len(self._scores)

    def add(self, score: float) -> None:
        insort(self._scores, score)

    def better_than(self, score: float) -> int:
        """How many scores are strictly greater."""
        return len(self._scores) - bisect_right(self._scores, score)

    def worse_than(self, score: float) -> int:
        """How many scores are strictly less."""
        return bisect_left(self._scores, score)

    def quantile(self, q: float) -> float:
        """The q-quantile (0 to 1) with linear interpolation between neighbours."""
        if not self._scores:
            raise ValueError("a quantile of no scores does not exist")
        position = q * (len(self._scores) - 1)
        low = int(position)
        high = min(low + 1, len(self._scores) - 1)
        below, above = self._scores[low], self._scores[high]
        if position == low or below == above:
            return below
        return below + (position - low) * (above - below) if math.isfinite(below) else below

    def top(self, count: int) -> list[float]:
        """The greatest scores, best first."""
        return self._scores[-count:][::-1] if count > 0 else []


class Study:
    """A view of a study that is kept up, never copied: each question costs O(log n) or less.

    A live study's view is filled from the ledger, a simulated one's by the event loop.
    """

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self._by_state: dict[TrialState, dict[int, Trial]] = {state: {} for state in TrialState}
        self._rankings: dict[int, Ranking] = {}

    # -- questions ---------------------------------------------------------------------------

    def in_state(self, state: TrialState) -> Mapping[int, Trial]:
        """Trials in a state by number, in the order in which they got into it."""
        return self._by_state[state]

    @property
    def unstarted(self) -> int:
        """Trials that may still be created."""
        return max(self.goal.trials - len(self.trials), 0)

    def ranking_at(self, step: int) -> Ranking:
        """The scores that trials first reported at or after a step.

        The first question about a step looks at every trial; from then on the ranking is kept up.
        """
        ranking = self._rankings.get(step)
        if ranking is None:
            ranking = self._rankings[step] = Ranking()
            for trial in self.trials:
                if (score := trial.score_at(step)) is not None:
                    ranking.add(score)
        return ranking

    # -- what happened -----------------------------------------------------------------------

    def add(self, params: Mapping[str, ParamValue] | None = None) -> Trial:
        """Adds the next trial, waiting."""
        trial = Trial(number=len(self.trials), params=params or {})
        self.trials.append(trial)
        self._by_state[trial.state][trial.number] = trial
        return trial

    def move(self, number: int, state: TrialState) -> Trial:
        """Puts a trial into a state."""
        trial = self.trials[number]
        del self._by_state[trial.state][number]
        trial.state = state
        self._by_state[state][number] = trial
        if state is not TrialState.RUNNING:
            trial.width = Fraction(0)
        return trial

    def start(self, number: int, *, width: Fraction = Fraction(1)) -> Trial:
        """A segment of the trial starts with these resources."""
        trial = self.move(number, TrialState.RUNNING)
        trial.width = width
        trial.segments += 1
        trial.observations_at_start = len(trial.observations)
        return trial

    def record(self, number: int, step: int, value: float, seconds: float = 0.0) -> bool:
        """Records a report; a step that is not after the last one is a repetition, and ignored.

        A value that is not a number is a score worse than any other.
        """
        trial = self.trials[number]
        last = trial.step
        if trial.observations and step <= last:
            return False
        score = -math.inf if math.isnan(value) else self.goal.direction.to_score(value)
        trial.observations.append(Observation(step, score, seconds))
        trial.seconds += seconds
        if trial.best_score is None or score > trial.best_score:
            trial.best_score = score
        if self.best is None or self.best.best_score is None or score > self.best.best_score:
            self.best = trial
        first = len(trial.observations) == 1
        for rung, ranking in self._rankings.items():
            if rung <= step and (first or last < rung):
                ranking.add(score)
        return True
