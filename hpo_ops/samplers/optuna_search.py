"""A study's search: parameters asked of Optuna and results told to it, in its own tables."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import optuna

from hpo_ops.core import Direction, TrialState, derive_seed
from hpo_ops.core.search_space import Categorical, Float, Int, Parameter, Space
from hpo_ops.protocol import ParamValue
from hpo_ops.samplers.draft_trial import DRAFT, Draft
from hpo_ops.samplers.optuna_storage import describe_trial, end_trial
from hpo_ops.samplers.sampler_registry import (
    CONSTRAINTS,
    WARM_START,
    create_sampler,
    is_one_sequence,
)

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

logger = logging.getLogger(__name__)

MAX_INTERMEDIATE_VALUES = 100
"""Reports of a trial that Optuna is told of; a longer curve is thinned out evenly."""

_STATES = {
    TrialState.COMPLETED: optuna.trial.TrialState.COMPLETE,
    TrialState.PRUNED: optuna.trial.TrialState.PRUNED,
    TrialState.FAILED: optuna.trial.TrialState.FAIL,
}


FIXED = "fixed_params"
"""Where Optuna looks for values that are not its sampler's to choose."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """Asks and tells for one study. Trial n here is trial n in Optuna.

    In a study with a warm start, the trials that were taken from another one come first there, and
    trial n here is the one n places after them. The first trials are those of ``enqueue``.

    The caller sees to it that asks of one study come one after the other. Everything may be
    repeated: an ask for a number that was already asked gives the same answer. A trial is written
    to Optuna's tables with all its parameters, or not at all.
    """

    storage: BaseStorage
    name: str
    space: Space
    directions: Sequence[Direction]
    sampler: str
    options: Mapping[str, Any]
    seed: int
    has_constraints: bool = False
    code: str = ""
    enqueue: Sequence[Mapping[str, ParamValue]] = ()
    is_warm: bool = False

    def ask(
        self, number: int, *, wanted: Mapping[str, ParamValue] | None = None
    ) -> dict[str, ParamValue]:
        """Parameters of trial ``number``.

        Args:
            number: The trial.
            wanted: Values that it is to have; the sampler adds what they leave out.
        """
        trial_id = self._find(number)
        if trial_id is not None:
            return self._check(number, self.storage.get_trial(trial_id).params)
        # There may be trials before this one that are yet to be asked for.
        following = number
        while following > 0 and self._find(following - 1) is None:
            following -= 1
        for before in range(following, number):
            self._draw(before, None)
        return self._draw(number, wanted)

    def _draw(self, number: int, wanted: Mapping[str, ParamValue] | None) -> dict[str, ParamValue]:
        """Parameters of a trial that Optuna does not have yet, and has from then on."""
        if wanted is None and number < len(self.enqueue):
            wanted = self.enqueue[number]
        study = self._study(number)
        fixed = {} if wanted is None else {FIXED: dict(wanted)}
        draft = Draft(self.storage, number + self._taken, **fixed)
        study._storage = draft  # type: ignore[assignment]
        trial = optuna.trial.Trial(study, DRAFT)
        params: dict[str, ParamValue] = {}
        for name, parameter in self.space.items():
            if self.space.exists(name, params):
                params[name] = _suggest(trial, name, parameter)
        draft.write(study._study_id)
        return params

    def _check(self, number: int, params: dict[str, ParamValue]) -> dict[str, ParamValue]:
        """Parameters that a trial has; finds out who else adds trials to the study in Optuna."""
        names = [name for name in self.space if self.space.exists(name, params)]
        if set(names) != set(params):
            raise RuntimeError(
                f"trial {number} of {self.name} has {', '.join(params) or 'nothing'} in Optuna, "
                f"but must have {', '.join(names)}: it was added by somebody else"
            )
        return {name: params[name] for name in names}

    def tell(
        self,
        number: int,
        state: TrialState,
        *,
        values: Sequence[float] | None,
        curve: Sequence[tuple[int, float]] = (),
        violations: Sequence[float] = (),
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Tells how a trial ended; a trial that was told already is left as it is.

        Args:
            number: The trial.
            state: How it ended.
            values: A value for each metric; None where there is none.
            curve: Its reports (step, value); of use with one metric only.
            violations: By how much it violates each constraint.
            attributes: What else Optuna is to keep of it, for people.
        """
        study = self._study(number)
        trial_id = self._find(number)
        if trial_id is None:
            raise KeyError(f"trial {number} of {self.name} was never asked for")
        told = list(values) if values is not None and state is TrialState.COMPLETED else None
        if state is TrialState.PRUNED and curve and len(self.directions) == 1:
            told = [curve[-1][1]]  # the last one, as Optuna has it
        try:
            known = {CONSTRAINTS: list(violations)} if violations else {}
            describe_trial(
                self.storage,
                trial_id,
                curve=_thinned(curve) if len(self.directions) == 1 else (),
                attributes={**known, **(attributes or {})},
            )
            _let_sampler_know(study, trial_id, _STATES[state], told)
            end_trial(self.storage, trial_id, _STATES[state], told)
        except optuna.exceptions.UpdateFinishedTrialError:
            return

    def _find(self, number: int) -> int | None:
        """Optuna's id of a trial; None where it was never asked for."""
        find = self.storage.get_trial_id_from_study_id_trial_number
        try:
            return find(self._found._study_id, number + self._taken)
        except KeyError:
            return None

    @cached_property
    def _taken(self) -> int:
        """Trials of another study that come before the study's own."""
        if not self.is_warm:
            return 0
        return int(self._found.user_attrs[WARM_START]["taken"])

    def open(self) -> optuna.Study:
        """The study in Optuna's tables, made if it is not there."""
        return self._study(0)

    def _study(self, number: int) -> optuna.Study:
        """The study with a sampler whose draws depend on the study's seed and the trial alone."""
        path = ("ask",) if is_one_sequence(self.sampler, self.code) else ("ask", number)
        sampler = create_sampler(
            self.sampler,
            self.options,
            seed=derive_seed(self.seed, *path),
            space=self.space,
            has_constraints=self.has_constraints,
            code=self.code,
        )
        study = copy.copy(self._found)
        study.sampler = sampler
        return study

    @cached_property
    def _found(self) -> optuna.Study:
        """The study in Optuna's tables, looked for once."""
        try:
            return optuna.load_study(study_name=self.name, storage=self.storage)
        except KeyError:
            return optuna.create_study(
                study_name=self.name,
                storage=self.storage,
                directions=[direction.value for direction in self.directions],
                load_if_exists=True,
            )


def _let_sampler_know(
    study: optuna.Study,
    trial_id: int,
    state: optuna.trial.TrialState,
    values: Sequence[float] | None,
) -> None:
    """As `study.tell` does, which reads a trial three times, also for those who need it not."""
    sampler = study.sampler
    if type(sampler).after_trial is optuna.samplers.BaseSampler.after_trial:
        return
    try:
        sampler.after_trial(study, study._storage.get_trial(trial_id), state, values)
    except RuntimeError as error:
        # Samplers that have tried everything ask a loop to stop that is not there.
        if "Study.stop" not in str(error):
            raise


def _suggest(trial: optuna.Trial, name: str, parameter: Parameter) -> ParamValue:
    match parameter:
        case Float(low=low, high=high, log=log, step=step):
            return trial.suggest_float(name, low, high, log=log, step=step)
        case Int(low=low, high=high, log=log, step=step):
            return trial.suggest_int(name, low, high, log=log, step=step)
        case Categorical(choices=choices):
            return trial.suggest_categorical(name, choices)


def _thinned(curve: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    if len(curve) <= MAX_INTERMEDIATE_VALUES:
        return curve
    stride = (len(curve) - 1) / (MAX_INTERMEDIATE_VALUES - 1)
    return [curve[round(index * stride)] for index in range(MAX_INTERMEDIATE_VALUES)]
