"""POP: promising trials first, opportunistic ones in turn, poor ones stopped."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import ClassVar

from hpo_ops.core import Action, Decision, Member, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.policy_options import check_at_least, check_between
from hpo_ops.schedulers.evaluation_boundaries import is_at_boundary, next_boundary, no_boundary
from hpo_ops.schedulers.pop_slots import Division, divide_slots
from hpo_ops.schedulers.slot_filling import by_priority, group_reason, resume, resume_reason
from hpo_ops.schedulers.target_chances import ChanceIndex, chance_to_reach


@dataclass(frozen=True, kw_only=True)
class Queues:
    """Trials that can go on, each kind in its order."""

    promising: deque[Trial]
    waiting: deque[Trial]
    opportunistic: deque[Trial]


@dataclass(frozen=True, kw_only=True)
class Pop:
    """Classifies trials by their predicted chance to reach the target, and divides the places.

    Rasley et al., "HyperDrive: Exploring Hyperparameters with POP Scheduling", Middleware 2017
    (https://doi.org/10.1145/3135974.3135994). At every boundary b: a trial at or below the
    kill threshold is stopped; then one whose chance p to reach the target in the time that is
    left is below 0.05; of the others those with p at or above a threshold that follows from all
    chances and places are promising and go on, the rest pause and take turns.

    Departures: places = floor(effective). The promising are ranked by p, not by the expected
    remaining time, which shrinks when success is unlikely. An opportunistic trial goes on where
    none other waits. Without a target in the study the target is a little above the best so far,
    and rises with it. Without a forecast nothing is decided.

    Example:
        >>> Pop(max_steps=120, kill_threshold=0.15).forecast_every
        10

    Attributes:
        max_steps: Steps of a whole trial.
        boundary: Steps between two judgements (b).
        kill_threshold: Value of the metric at which a trial is not learning; None for no rule.
        min_probability: Chance below which a trial is stopped.
        slots_per_trial: Places that one promising trial uses (k).
        target_increment: How far above the best so far the target is, where the study has none.
    """

    pauses: ClassVar[bool] = True
    copies: ClassVar[bool] = False
    rungs: ClassVar[tuple[int, ...] | None] = None

    max_steps: int
    boundary: int = 10
    kill_threshold: float | None = None
    min_probability: float = 0.05
    slots_per_trial: int = 1
    target_increment: float = 0.01

    def __post_init__(self) -> None:
        check_at_least("max_steps", self.max_steps, 1)
        check_at_least("boundary", self.boundary, 1)
        check_between("min_probability", self.min_probability, 0, 1)
        check_at_least("slots_per_trial", self.slots_per_trial, 1)
        check_at_least("target_increment", self.target_increment, 0)

    @property
    def forecast_every(self) -> int:
        """Steps between two forecasts."""
        return self.boundary

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if free <= 0:
            return TrialGroup((), "no place is free")
        running = study.in_state(TrialState.RUNNING)
        chances = self._chances(study, now)
        division = self._divide(chances, study.places or len(running) + free)
        queues = self._queues(study, chances, division, free)
        promising = sum(division.is_promising(chances.of(number)) for number in running)
        members: list[Member] = []
        unstarted = study.unstarted
        while len(members) < free:
            if queues.promising and promising < division.slots:
                trial = queues.promising.popleft()
                members.append(self._promising(study, trial, chances.of(trial.number)))
                promising += 1
            elif queues.waiting:
                members.append(self._member(study, queues.waiting.popleft()))
            elif unstarted:
                unstarted -= 1
                members.append(self._new(study))
            elif queues.opportunistic:
                members.append(self._member(study, queues.opportunistic.popleft()))
            elif queues.promising:
                trial = queues.promising.popleft()
                members.append(self._promising(study, trial, chances.of(trial.number)))
            else:
                break
        new = study.unstarted - unstarted
        reason = group_reason(study, len(members) - new, new, free)
        return TrialGroup(tuple(members), f"{reason}; {division.slots} places for promising ones")

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.step >= self.max_steps or not is_at_boundary(trial, self.boundary):
            return no_boundary(trial.step)
        score = trial.observations[-1].score
        if self._is_killed(study, score):
            return Decision(
                Action.STOP,
                f"not learning: at or below the kill threshold {self.kill_threshold:g}",
            )
        if trial.forecast is None:
            return Decision(Action.CONTINUE, "no forecast, so no decision")
        chance = self._chance(study, trial, now)
        if chance < self.min_probability:
            return Decision(
                Action.STOP,
                f"chance {chance:.3f} to reach the target, below {self.min_probability:g}",
            )
        return self._classify(study, trial, chance, now)

    def _classify(self, study: Study, trial: Trial, chance: float, now: float) -> Decision:
        chances = self._chances(study, now)
        division = self._divide(chances, study.places or len(study.in_state(TrialState.RUNNING)))
        text = f"chance {chance:.3f}, promising from {division.threshold:.3f}"
        if division.is_promising(chance):
            return Decision(Action.CONTINUE, f"promising: {text}")
        waits = study.unstarted or any(
            study.in_state(state) for state in (TrialState.PAUSED, TrialState.WAITING)
        )
        if not waits:
            return Decision(Action.CONTINUE, f"opportunistic, but no other trial waits: {text}")
        return Decision(Action.PAUSE, f"opportunistic, others take their turn: {text}")

    def _is_killed(self, study: Study, score: float) -> bool:
        if self.kill_threshold is None:
            return False
        return score <= study.goal.direction.to_score(self.kill_threshold)

    def _target(self, study: Study) -> float:
        if study.goal.target_score is not None:
            return study.goal.target_score
        if study.best is None or study.best.best_score is None:
            return -math.inf
        return study.best.best_score + self.target_increment

    def _chance(self, study: Study, trial: Trial, now: float) -> float:
        """The chance of a trial; in between two boundaries it is that of the last one.

        Where there is no time for all of its steps, only those count that there is time for.
        """
        if trial.forecast is None:
            return 0.0
        after, last = trial.step // self.boundary * self.boundary, self.max_steps
        in_time = self._last_in_time(study, trial, now)
        if in_time < last:
            after, last = trial.step, in_time
        return chance_to_reach(trial.forecast, self._target(study), after, last)

    def _last_in_time(self, study: Study, trial: Trial, now: float) -> int:
        """The last step that the trial has time for, at most that of a whole trial."""
        left = study.goal.seconds_left(now)
        if not math.isfinite(left) or not trial.seconds:
            return self.max_steps
        steps = math.floor(left * len(trial.observations) / trial.seconds)
        return min(trial.step + max(steps, 0), self.max_steps)

    def _chances(self, study: Study, now: float) -> ChanceIndex:
        """The chance of every active trial that has a forecast."""

        def chance_of(trial: Trial) -> float:
            return self._chance(study, trial, now)

        def is_short(trial: Trial) -> bool:
            return self._last_in_time(study, trial, now) < self.max_steps

        index = study.index(("chances", self), lambda: ChanceIndex(self.boundary))
        has_deadline = study.goal.deadline_seconds is not None
        return index.catch_up(
            study, self._target(study), chance_of, is_short if has_deadline else None
        )

    def _divide(self, chances: ChanceIndex, places: int) -> Division:
        ranked = (chance for chance, _ in chances.from_best())
        return divide_slots(ranked, places, self.slots_per_trial)

    def _queues(self, study: Study, chances: ChanceIndex, division: Division, free: int) -> Queues:
        """As many of each kind as there are places, in their order."""
        paused = study.in_state(TrialState.PAUSED)
        waiting = study.in_state(TrialState.WAITING).values()
        promising: deque[Trial] = deque()
        for chance, number in chances.from_best():
            if not division.is_promising(chance):
                break
            if number in paused:
                promising.append(paused[number])
        others = (
            trial
            for number, trial in paused.items()
            if not division.is_promising(chances.of(number))
        )
        return Queues(
            promising=promising,
            waiting=deque(nsmallest(free, waiting, key=by_priority)),
            opportunistic=deque(islice(others, free)),
        )

    def _member(self, study: Study, trial: Trial, reason: str | None = None) -> Member:
        return resume(trial, self._until_step(study, trial.step), reason or resume_reason(trial))

    def _promising(self, study: Study, trial: Trial, chance: float) -> Member:
        return self._member(
            study, trial, f"trial {trial.number} is promising: chance {chance:.3f}"
        )

    def _new(self, study: Study) -> Member:
        return Member(until_step=self._until_step(study, 0), reason="new, and a place is free")

    def _until_step(self, study: Study, step: int) -> int:
        if study.goal.at_barrier:
            return next_boundary(step, self.boundary, self.max_steps)
        return self.max_steps
