"""POP: promising trials run first, opportunistic trials take turns, poor trials are stopped."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import ClassVar

from hpo_ops.core import Action, Decision, Member, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.policy_options import check_at_least, check_between
from hpo_ops.schedulers._evaluation_boundaries import is_at_boundary, next_boundary, no_boundary
from hpo_ops.schedulers._pop_slots import Division, divide_slots
from hpo_ops.schedulers._target_probabilities import ProbabilityIndex, probability_to_reach
from hpo_ops.schedulers.slot_filling import by_priority, group_reason, resume, resume_reason


@dataclass(frozen=True, kw_only=True)
class Queues:
    """The trials that could get a free slot, in one queue per class, the next trial first.

    ``promising`` and ``opportunistic`` have paused trials, ``waiting`` has trials that never ran.
    """

    promising: deque[Trial]
    waiting: deque[Trial]
    opportunistic: deque[Trial]


@dataclass(frozen=True, kw_only=True)
class Pop:
    """Divides the slots between trials by their predicted probability to reach the target.

    Rasley et al., "HyperDrive: Exploring Hyperparameters with POP Scheduling", Middleware 2017
    (https://doi.org/10.1145/3135974.3135994). At every boundary b a trial is stopped if its score
    is at or below the kill threshold, or if its probability p to reach the target in the remaining
    time is below 0.05. Other trials are promising and continue if p is at or above a threshold,
    which follows from all probabilities and slots. Otherwise they are opportunistic: they pause
    and take turns. A paused trial keeps its checkpoint; a stopped trial cannot be resumed,
    and its checkpoints may be deleted.

    Departures: the number of slots for promising trials is rounded down. Promising trials are
    ranked by p, not by the expected remaining time, which shrinks when success is unlikely. An
    opportunistic trial continues if no other trial is waiting. If the study has no target, the
    target is a little above the best score so far, and rises with it. A trial without a forecast
    continues.

    Example:
        >>> Pop(max_steps=120, kill_threshold=0.15).forecast_every
        10

    Attributes:
        max_steps: Steps of a full-length trial.
        boundary: Steps between two decisions (b).
        kill_threshold: Value of the metric; a trial that is no better does not learn and is
            stopped. None for no such threshold.
        min_probability: Probability of reaching the target below which a trial is stopped.
        slots_per_trial: Number of slots that one promising trial uses (k).
        target_increment: Distance of the target from the best score, if the study has no target.
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
        """Steps between two forecasts: one at each boundary."""
        return self.boundary

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if free <= 0:
            return TrialGroup((), "no slot is free")
        running = study.in_state(TrialState.RUNNING)
        probabilities = self._probabilities(study, now)
        division = self._divide(probabilities, study.slots or len(running) + free)
        queues = self._queues(study, probabilities, division, free)
        promising = sum(division.is_promising(probabilities.of(number)) for number in running)
        members: list[Member] = []
        unstarted = study.unstarted
        while len(members) < free:
            if queues.promising and promising < division.slots:
                trial = queues.promising.popleft()
                members.append(self._promising(study, trial, probabilities.of(trial.number)))
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
                members.append(self._promising(study, trial, probabilities.of(trial.number)))
            else:
                break
        new = study.unstarted - unstarted
        reason = group_reason(study, len(members) - new, new, free)
        return TrialGroup(tuple(members), f"{reason}; {division.slots} slots for promising trials")

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
            return Decision(Action.CONTINUE, "no forecast of its learning curve, so it continues")
        probability = self._probability(study, trial, now)
        if probability < self.min_probability:
            return Decision(
                Action.STOP,
                f"probability {probability:.3f} to reach the target is below "
                f"{self.min_probability:g}",
            )
        return self._classify(study, trial, probability, now)

    def _classify(self, study: Study, trial: Trial, probability: float, now: float) -> Decision:
        probabilities = self._probabilities(study, now)
        division = self._divide(
            probabilities, study.slots or len(study.in_state(TrialState.RUNNING))
        )
        text = f"probability {probability:.3f} to reach the target"
        if division.is_promising(probability):
            least = f"at least {division.threshold:.3f}"
            return Decision(Action.CONTINUE, f"promising: {text} is {least}")
        text = f"{text} is below {division.threshold:.3f}"
        waits = study.unstarted or any(
            study.in_state(state) for state in (TrialState.PAUSED, TrialState.WAITING)
        )
        if not waits:
            return Decision(
                Action.CONTINUE, f"opportunistic, but no other trial is waiting: {text}"
            )
        return Decision(Action.PAUSE, f"opportunistic, and other trials take their turn: {text}")

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

    def _probability(self, study: Study, trial: Trial, now: float) -> float:
        """Returns the probability that a trial reaches the target, or 0 without a forecast.

        Between two boundaries the probability at the last boundary is returned. If the deadline
        leaves no time for all steps, only the steps before the deadline count.
        """
        if trial.forecast is None:
            return 0.0
        after, last = trial.step // self.boundary * self.boundary, self.max_steps
        in_time = self._last_in_time(study, trial, now)
        if in_time < last:
            after, last = trial.step, in_time
        return probability_to_reach(trial.forecast, self._target(study), after, last)

    def _last_in_time(self, study: Study, trial: Trial, now: float) -> int:
        """Returns the last step, up to ``max_steps``, that a trial can reach by the deadline."""
        left = study.goal.seconds_left(now)
        if not math.isfinite(left) or not trial.seconds:
            return self.max_steps
        steps = math.floor(left * len(trial.observations) / trial.seconds)
        return min(trial.step + max(steps, 0), self.max_steps)

    def _probabilities(self, study: Study, now: float) -> ProbabilityIndex:
        """Returns the updated index of the trials' probabilities to reach the target."""

        def probability_of(trial: Trial) -> float:
            return self._probability(study, trial, now)

        def is_short(trial: Trial) -> bool:
            return self._last_in_time(study, trial, now) < self.max_steps

        index = study.index(("probabilities", self), lambda: ProbabilityIndex(self.boundary))
        has_deadline = study.goal.deadline_seconds is not None
        return index.catch_up(
            study, self._target(study), probability_of, is_short if has_deadline else None
        )

    def _divide(self, probabilities: ProbabilityIndex, slots: int) -> Division:
        ranked = (probability for probability, _ in probabilities.from_best())
        return divide_slots(ranked, slots, self.slots_per_trial)

    def _queues(
        self, study: Study, probabilities: ProbabilityIndex, division: Division, free: int
    ) -> Queues:
        """Returns the promising, waiting and opportunistic trials that may get a free slot."""
        paused = study.in_state(TrialState.PAUSED)
        waiting = study.in_state(TrialState.WAITING).values()
        promising: deque[Trial] = deque()
        for probability, number in probabilities.from_best():
            if not division.is_promising(probability):
                break
            if number in paused:
                promising.append(paused[number])
        others = (
            trial
            for number, trial in paused.items()
            if not division.is_promising(probabilities.of(number))
        )
        return Queues(
            promising=promising,
            waiting=deque(nsmallest(free, waiting, key=by_priority)),
            opportunistic=deque(islice(others, free)),
        )

    def _member(self, study: Study, trial: Trial, reason: str | None = None) -> Member:
        return resume(trial, self._until_step(study, trial.step), reason or resume_reason(trial))

    def _promising(self, study: Study, trial: Trial, probability: float) -> Member:
        text = f"probability {probability:.3f} to reach the target"
        return self._member(study, trial, f"trial {trial.number} is promising: {text}")

    def _new(self, study: Study) -> Member:
        return Member(until_step=self._until_step(study, 0), reason="new, and a slot is free")

    def _until_step(self, study: Study, step: int) -> int:
        if study.goal.at_barrier:
            return next_boundary(step, self.boundary, self.max_steps)
        return self.max_steps
