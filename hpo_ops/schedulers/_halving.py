"""Synchronous successive halving: trials are compared once all trials have reached a rung."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hpo_ops.core import Decision, Member, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.decisions import PAUSE
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.core.trial_state import PAUSED, RUNNING
from hpo_ops.schedulers.rungs import next_rung, no_rung, rung_steps
from hpo_ops.schedulers.slot_filling import by_priority, resume_reason


class BarrierIndex:
    """Index of paused trials by step, and of running trials by the step they started from."""

    def __init__(self) -> None:
        self.at_step: dict[int, list[tuple[float, int]]] = {}
        """Negated score and number of each trial that is paused at a step, best first."""
        self.running_from: Counter[int] = Counter()
        """Number of running trials, by the step from which their segments started."""
        self._entries: dict[int, tuple[int, tuple[float, int]]] = {}
        self._starts: dict[int, int] = {}

    def reported(self, trial: Trial, before: int) -> None:
        if trial.number in self._entries:
            self._forget(trial)
            self._add(trial)

    def moved(self, trial: Trial, before: TrialState) -> None:
        number, state = trial.number, trial.state
        if number in self._entries:
            self._forget(trial)
        elif number in self._starts:
            self._leave(self._starts.pop(number))
        if state is PAUSED:
            self._add(trial)
        elif state is RUNNING:
            self._starts[number] = start = trial.step_at_start
            self.running_from[start] += 1

    def _leave(self, start: int) -> None:
        self.running_from[start] -= 1
        if not self.running_from[start]:
            del self.running_from[start]

    def _add(self, trial: Trial) -> None:
        entry = (-(trial.score or 0.0), trial.number)
        insort(self.at_step.setdefault(trial.step, []), entry)
        self._entries[trial.number] = (trial.step, entry)

    def _forget(self, trial: Trial) -> None:
        step, entry = self._entries.pop(trial.number)
        here = self.at_step[step]
        del here[bisect_left(here, entry)]
        if not here:
            del self.at_step[step]


@dataclass(frozen=True, kw_only=True)
class Halving:
    """Trains all trials to a rung, then the best 1/eta of the trials to the next rung, and so on.

    Synchronous successive halving, Jamieson and Talwalkar, "Non-stochastic Best Arm
    Identification and Hyperparameter Optimization", AISTATS 2016
    (https://arxiv.org/abs/1502.07943). Trials pause at each rung until the last trial has reached
    it; then the best trials continue and the others are pruned. A pruned trial cannot be resumed;
    its checkpoints may be deleted. The trials that continue from a rung form a trial group, among
    which the allocator ``dynamic_fluid`` shares units.

    Departures: the bracket is the entire study, and its size need not be a power of eta: of n
    trials that reach a rung the best max(1, floor(n / eta)) continue.

    Example:
        >>> Halving(max_steps=27).rungs
        (1, 3, 9, 27)

    Attributes:
        min_steps: Steps to the first rung (r).
        max_steps: Steps of a full-length trial (R).
        eta: Reduction factor: about one trial in eta continues from each rung (η).
    """

    pauses: ClassVar[bool] = True
    copies: ClassVar[bool] = False
    forecast_every: ClassVar[int | None] = None

    min_steps: int = 1
    max_steps: int
    eta: int = 3

    def __post_init__(self) -> None:
        check_at_least("min_steps", self.min_steps, 1)
        check_at_least("max_steps", self.max_steps, self.min_steps)
        check_at_least("eta", self.eta, 2)

    @cached_property
    def rungs(self) -> tuple[int, ...]:
        """Steps at which trials are compared; the last rung ends a full-length trial."""
        return rung_steps(self.min_steps, self.max_steps, self.eta)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if free <= 0:
            return TrialGroup((), "no slot is free")
        at_step = study.index("barriers", BarrierIndex).at_step
        ready = [
            study.trials[number]
            for step, here in at_step.items()
            if step not in self.rungs
            for _, number in here
        ]
        ready += study.in_state(TrialState.WAITING).values()
        if study.unstarted or ready:
            return self._start(study, sorted(ready, key=by_priority), free)
        if not at_step:
            return TrialGroup((), f"all {study.goal.trials} trials have been started")
        return self._promote(study, min(at_step), free)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.step >= self.max_steps or trial.step not in self.rungs:
            return no_rung(trial.step)
        return Decision(PAUSE, f"waits at rung {trial.step} until all trials have reached it")

    def _start(self, study: Study, ready: Sequence[Trial], free: int) -> TrialGroup:
        members = [self._member(trial, resume_reason(trial)) for trial in ready[:free]]
        for i in range(min(free - len(members), study.unstarted)):
            number = len(study.trials) + i
            members.append(
                Member(f"trial {number} is new, and a slot is free", None, self.rungs[0])
            )
        return TrialGroup(
            tuple(members), f"{len(members)} trials start towards rung {self.rungs[0]}"
        )

    def _promote(self, study: Study, step: int, free: int) -> TrialGroup:
        """Returns the group of the best trials at a rung, which continue to the next rung.

        The group is empty while other trials are still running towards the rung.

        Args:
            study: The study.
            step: The rung: the lowest step at which a trial is paused.
            free: Number of free slots.
        """
        running = len(study.in_state(TrialState.RUNNING))
        index = study.index("barriers", BarrierIndex)
        lowest = self._reached(step)
        if any(self._reached(start) < lowest for start in index.running_from):
            return TrialGroup((), f"{running} trials are still running towards a rung")
        best = index.at_step[step]
        count = len(best)
        unfinished = len(study.in_state(TrialState.PAUSED)) + running
        if count == unfinished:  # else they were promoted already, and wait for slots
            count = max(1, len(study.ranking_at(step)) // self.eta)
        members = [
            self._member(study.trials[number], f"trial {number} is among the best at rung {step}")
            for _, number in best[: min(free, count)]
        ]
        return TrialGroup(
            tuple(members),
            f"the best {min(count, len(best))} at rung {step} continue",
            tuple(number for _, number in best[count:]),
        )

    def _member(self, trial: Trial, reason: str) -> Member:
        until = next_rung(trial.step, self.rungs, self.max_steps)
        group = self._reached(trial.step)
        return Member(reason, trial.number, until, group)

    def _reached(self, step: int) -> int:
        """Returns the number of rungs at or below a step."""
        return bisect_right(self.rungs, step)
