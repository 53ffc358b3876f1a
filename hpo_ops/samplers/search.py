"""A study's search: parameters asked of Optuna and results told to it, in its own tables."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import optuna

from hpo_ops.core import Direction, TrialState, derive_seed
from hpo_ops.core.space import Categorical, Float, Int, Parameter, Space
from hpo_ops.protocol import ParamValue
from hpo_ops.samplers.registry import (
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


def open_storage(url: str) -> BaseStorage:
    """Optuna's storage on the ledger's database.

    Its commits do not wait for the disk. The ledger's do, in the same log and after them, so that
    what the ledger takes for told or asked is never lost without it.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    options = "-csearch_path=public -csynchronous_commit=off"
    engine = {"pool_pre_ping": True, "connect_args": {"options": options}}
    return optuna.storages.get_storage(optuna.storages.RDBStorage(url, engine_kwargs=engine))


@dataclass(frozen=True, kw_only=True)
class Search:
    """Asks and tells for one study. Trial n here is trial n in Optuna.

    In a study with a warm start, the trials that were taken from another one come first there, and
    trial n here is the one n places after them. The first trials are those of ``enqueue``.

    The caller sees to it that asks of one study come one after the other. Everything may be
    repeated: an ask for a number that was already asked gives the same answer.
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
        study = self._study(number)
        try:
            trial_id = self._trial_id(number)
        except KeyError:
            trial = self._new_trial(study, number)
            # There may be trials before this one that are yet to be asked for.
            while trial.number < number + self._taken:
                trial = self._new_trial(study, number)
        else:
            # Another process may have begun this ask. Optuna keeps parameters of trials only that
            # it has seen in this one.
            study.get_trials(deepcopy=False)
            trial = optuna.trial.Trial(study, trial_id)
        if wanted is not None and not trial.params:
            self.storage.set_trial_system_attr(trial._trial_id, FIXED, dict(wanted))
            trial = optuna.trial.Trial(study, trial._trial_id)
        params: dict[str, ParamValue] = {}
        for name, parameter in self.space.items():
            if self.space.exists(name, params):
                params[name] = _suggest(trial, name, parameter)
        return params

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
        trial_id = self._trial_id(number)
        told = list(values) if values is not None and state is TrialState.COMPLETED else None
        if state is TrialState.PRUNED and curve and len(self.directions) == 1:
            told = [curve[-1][1]]  # the last one, as Optuna has it
        try:
            for step, seen in _thinned(curve) if len(self.directions) == 1 else ():
                self.storage.set_trial_intermediate_value(trial_id, step, seen)
            if violations:
                self.storage.set_trial_user_attr(trial_id, CONSTRAINTS, list(violations))
            for name, value in (attributes or {}).items():
                self.storage.set_trial_user_attr(trial_id, name, value)
            _let_sampler_know(study, trial_id, _STATES[state], told)
            self.storage.set_trial_state_values(trial_id, _STATES[state], told)
        except optuna.exceptions.UpdateFinishedTrialError:
            return

    def _trial_id(self, number: int) -> int:
        place = number + self._taken
        return self.storage.get_trial_id_from_study_id_trial_number(self._found._study_id, place)

    @cached_property
    def _taken(self) -> int:
        """Trials of another study that come before the study's own."""
        if not self.is_warm:
            return 0
        return int(self._found.user_attrs[WARM_START]["taken"])

    def _new_trial(self, study: optuna.Study, number: int) -> optuna.Trial:
        """The next trial; most likely it is the one of the number."""
        if self.enqueue:
            following = self.storage.get_n_trials(study._study_id) - self._taken
            if following < len(self.enqueue):
                fixed = {FIXED: dict(self.enqueue[following])}
                running = optuna.trial.TrialState.RUNNING
                study.add_trial(optuna.trial.create_trial(state=running, system_attrs=fixed))
                return optuna.trial.Trial(study, self._trial_id(following))
        # As `study.ask` does, but nobody else puts trials into the queue that it looks at.
        trial_id = self.storage.create_new_trial(study._study_id)
        # Optuna knows without a look which number a trial got that was made here.
        known = partial(self.storage.get_trial_id_from_study_id_trial_number, study._study_id)
        place = number + self._taken
        with suppress(KeyError):
            if known(place) == trial_id:
                study._storage = _Knowing(self.storage, trial_id, place)  # type: ignore[assignment]
        return optuna.trial.Trial(study, trial_id)

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


class _Knowing:
    """Optuna's storage, which need not be asked about a trial that was made a moment ago."""

    def __init__(self, storage: BaseStorage, trial_id: int, number: int) -> None:
        self._storage = storage
        self._number = number
        self._trial_id: int | None = trial_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def get_trial(self, trial_id: int) -> optuna.trial.FrozenTrial:
        if trial_id != self._trial_id:
            return self._storage.get_trial(trial_id)
        self._trial_id = None  # it changes from now on
        trial = optuna.trial.create_trial(state=optuna.trial.TrialState.RUNNING)
        trial.number = self._number
        trial._trial_id = trial_id
        return trial


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
