"""Population-based training: poor trials are replaced by perturbed copies of good trials."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from hpo_ops.core import (
    Action,
    Decision,
    Member,
    Study,
    Trial,
    TrialGroup,
    TrialState,
    derive_seed,
)
from hpo_ops.core.policy_options import check_at_least, check_between
from hpo_ops.protocol import ParamValue
from hpo_ops.schedulers._evaluation_boundaries import is_at_boundary, no_boundary
from hpo_ops.schedulers.rungs import ordinal
from hpo_ops.schedulers.slot_filling import group_reason, resume, waiting_trials


@dataclass(frozen=True, kw_only=True)
class Pbt:
    """Replaces the worst trials of a population by perturbed copies of the best.

    Jaderberg et al., "Population Based Training of Neural Networks", 2017
    (https://arxiv.org/abs/1711.09846), truncation selection: a trial in the bottom share at a
    boundary is stopped (exploit); its slot goes to a new trial that starts from the checkpoint of
    a trial in the top share, with each numeric hyperparameter multiplied by one of two factors
    (explore). A stopped trial cannot be resumed.

    Departures: a copy is a new trial, so that it stays visible which steps were trained with which
    hyperparameters; copies count towards the study's ``trials``. Categorical parameters are not
    perturbed. The gateway clips perturbed values to the search space.

    Example:
        >>> Pbt(population=8, max_steps=100).interval
        5

    Attributes:
        population: Number of unfinished trials at a time.
        max_steps: Steps of a full-length trial, including the steps of the trials that it copies.
        interval: Steps between two boundaries.
        share: Share of the population (0 to 0.5) that counts as the worst and is stopped; the same
            share counts as the best, from which parents are chosen.
        factors: Factors by which numeric hyperparameters are multiplied.
        seed: Seed of the choice of parents and factors.
    """

    pauses: ClassVar[bool] = False
    copies: ClassVar[bool] = True
    rungs: ClassVar[tuple[int, ...] | None] = None
    forecast_every: ClassVar[int | None] = None

    population: int = 10
    max_steps: int
    interval: int = 5
    share: float = 0.2
    factors: tuple[float, ...] = (0.8, 1.2)
    seed: int = 0

    def __post_init__(self) -> None:
        check_at_least("population", self.population, 2)
        check_at_least("max_steps", self.max_steps, 1)
        check_at_least("interval", self.interval, 1)
        check_between("share", self.share, 0, 0.5)
        if not self.factors:
            raise ValueError("factors is [], but must be one number or more")

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        if free <= 0:
            return TrialGroup((), "no slot is free")
        members = [resume(trial, self.max_steps) for trial in waiting_trials(study, free)]
        live = self._live(study)
        room = min(free - len(members), study.unstarted, self.population - len(live))
        for i in range(room):
            number = len(study.trials) + i
            copied = number >= self.population
            members.append(self._copy(live, number) if copied else self._first(number))
        new = max(room, 0)
        return TrialGroup(tuple(members), group_reason(study, len(members) - new, new, free))

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        if trial.step >= self.max_steps or not self._is_due(trial):
            return no_boundary(trial.step)
        live = sorted((t for t in self._live(study) if t.score is not None), key=_by_score)
        poor = int(len(live) * self.share)
        rank = live.index(trial) + 1 if trial in live else 0
        text = f"ranked {ordinal(rank)} of {len(live)} trials at step {trial.step}"
        if rank > len(live) - poor and study.unstarted:
            return Decision(Action.STOP, f"{text}; a perturbed copy of a better trial replaces it")
        return Decision(Action.CONTINUE, text)

    def _is_due(self, trial: Trial) -> bool:
        """Checks whether a trial's last report reached a boundary (a multiple of ``interval``).

        A copy counts its steps from those of its parent, so that its first report reaches a
        boundary only if its step is a multiple itself.
        """
        if trial.number >= self.population and len(trial.observations) == 1:
            return trial.step % self.interval == 0
        return is_at_boundary(trial, self.interval)

    def _live(self, study: Study) -> list[Trial]:
        states = (TrialState.RUNNING, TrialState.PAUSED, TrialState.WAITING)
        return [trial for state in states for trial in study.in_state(state).values()]

    def _first(self, number: int) -> Member:
        return Member(
            until_step=self.max_steps, reason=f"trial {number} belongs to the first population"
        )

    def _copy(self, live: list[Trial], number: int) -> Member:
        good = sorted((trial for trial in live if trial.score is not None), key=_by_score)
        if not good:
            return self._first(number)
        random = Random(derive_seed(self.seed, "pbt", number))  # noqa: S311 (no secret)
        parent = good[random.randrange(max(1, int(len(good) * self.share)))]
        params = {name: self._perturb(value, random) for name, value in parent.params.items()}
        return Member(
            until_step=self.max_steps,
            reason=f"trial {number} is a perturbed copy of trial {parent.number}",
            parent=parent.number,
            params=params,
        )

    def _perturb(self, value: ParamValue, random: Random) -> ParamValue:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return value
        changed = value * random.choice(self.factors)
        return round(changed) if isinstance(value, int) else changed


def _by_score(trial: Trial) -> tuple[float, int]:
    return -(trial.score or 0.0), trial.number
