"""Successive halving with a barrier: a rung is judged when all of it have arrived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hpo_ops.core import Action, Decision, Member, Study, Trial, TrialGroup, TrialState
from hpo_ops.core.options import check_at_least
from hpo_ops.schedulers.places import by_priority, resume_reason
from hpo_ops.schedulers.rungs import next_rung, rung_steps


@dataclass(frozen=True, kw_only=True)
class Halving:
    """Trains all trials to a rung, then the best 1/eta of them to the next, and so on.

    Synchronous successive halving, Jamieson and Talwalkar, "Non-stochastic Best Arm
    Identification and Hyperparameter Optimization", AISTATS 2016
    (https://arxiv.org/abs/1502.07943). Each rung is one trial group, which Fluid shares resources
    among.

    Departures: the bracket is the whole study, and its size need not be a power of eta:
    max(1, floor(n / eta)) of the n that reach a rung go on.

    Example:
        >>> Halving(max_steps=27).rungs
        (1, 3, 9, 27)

    Attributes:
        min_steps: Steps before the first judgement (r).
        max_steps: Steps of a whole trial (R).
        eta: One of so many goes on from each rung (η).
    """

    min_steps: int = 1
    max_steps: int
    eta: int = 3

    def __post_init__(self) -> None:
        check_at_least("min_steps", self.min_steps, 1)
        check_at_least("max_steps", self.max_steps, self.min_steps)
        check_at_least("eta", self.eta, 2)

    @cached_property
    def rungs(self) -> tuple[int, ...]:
        """The steps at which trials are judged; at the last one they are whole."""
        return rung_steps(self.min_steps, self.max_steps, self.eta)

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if free <= 0:
            return TrialGroup((), "no place is free")
        paused = list(study.in_state(TrialState.PAUSED).values())
        ready = [trial for trial in paused if trial.step not in self.rungs]
        ready += study.in_state(TrialState.WAITING).values()
        if study.unstarted or ready:
            return self._start(study, sorted(ready, key=by_priority), free)
        if not paused:
            return TrialGroup((), f"all {study.goal.trials} trials have been started")
        return self._promote(study, paused, free)

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.step >= self.max_steps or trial.step not in self.rungs:
            return Decision(Action.CONTINUE, f"no rung at step {trial.step}")
        return Decision(Action.PAUSE, f"waits for the others at step {trial.step}")

    def _start(self, study: Study, ready: Sequence[Trial], free: int) -> TrialGroup:
        members = [self._member(trial, resume_reason(trial)) for trial in ready[:free]]
        for i in range(min(free - len(members), study.unstarted)):
            number = len(study.trials) + i
            members.append(
                Member(until_step=self.rungs[0], reason=f"trial {number} is new, first rung")
            )
        return TrialGroup(tuple(members), f"{len(members)} of rung {self.rungs[0]}")

    def _promote(self, study: Study, paused: Sequence[Trial], free: int) -> TrialGroup:
        running = study.in_state(TrialState.RUNNING).values()
        unfinished = [*paused, *running]
        lowest = min(self._level(trial) for trial in unfinished)
        here = [trial for trial in paused if self._level(trial) == lowest]
        if not here:
            return TrialGroup((), f"{len(running)} trials are still on their way to a rung")
        best = sorted(here, key=lambda trial: (-(trial.score or 0.0), trial.number))
        if len(here) < len(unfinished):  # the barrier was passed, these wait for a place only
            kept, dropped = best, best[:0]
        else:
            count = max(1, len(study.ranking_at(self.rungs[lowest - 1])) // self.eta)
            kept, dropped = best[:count], best[count:]
        step = self.rungs[lowest - 1]
        members = [
            self._member(trial, f"trial {trial.number} is among the best at step {step}")
            for trial in kept[:free]
        ]
        return TrialGroup(
            tuple(members),
            f"the best {len(kept)} at step {step} go on",
            tuple(trial.number for trial in dropped),
        )

    def _member(self, trial: Trial, reason: str) -> Member:
        until = next_rung(trial.step, self.rungs, self.max_steps)
        return Member(
            trial=trial.number, until_step=until, reason=reason, group=self._level(trial)
        )

    def _level(self, trial: Trial) -> int:
        """How many rungs the trial has reached, or had when its segment started if it runs."""
        step = trial.step
        if trial.state is TrialState.RUNNING:
            start = trial.observations_at_start
            step = trial.observations[start - 1].step if start else 0
        return sum(rung <= step for rung in self.rungs)
