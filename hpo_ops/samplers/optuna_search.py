"""Samples the parameters of a study's trials with Optuna, and records the trials' results."""

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
from hpo_ops.samplers._draft_trial import DRAFT, Draft
from hpo_ops.samplers._sampler_registry import (
    CONSTRAINTS,
    WARM_START,
    create_sampler,
    is_one_sequence,
)
from hpo_ops.samplers.optuna_storage import describe_trial, end_trial

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

logger = logging.getLogger(__name__)

MAX_INTERMEDIATE_VALUES = 100
"""Maximum number of reports of a trial that are stored in Optuna; longer curves are subsampled."""

_STATES = {
    TrialState.COMPLETED: optuna.trial.TrialState.COMPLETE,
    TrialState.PRUNED: optuna.trial.TrialState.PRUNED,
    TrialState.FAILED: optuna.trial.TrialState.FAIL,
}


FIXED = "fixed_params"
"""Optuna's system attribute for parameter values that are fixed rather than sampled."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """The ask-and-tell interface of one study to its sampler, on Optuna's tables.

    Trial n of the study is trial n in Optuna. In a study with a warm start (trials copied
    from another study), the copies come first in Optuna, so trial n is trial n + number of copies.
    Trial n gets the fixed parameters in entry n of ``enqueue``, if that entry exists.

    Not thread-safe: the caller must prevent concurrent `ask` calls for one study. All methods are
    idempotent: another `ask` for the same number returns the same parameters. A trial is written
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
        """Returns the parameters of a trial; the first call for a trial samples and stores them.

        Args:
            number: The trial's number in the study.
            wanted: Parameter values that the trial must have; the sampler chooses the other
                parameters. None for the values in `enqueue`, if any.
        """
        trial_id = self._find(number)
        if trial_id is not None:
            return self._check(number, self.storage.get_trial(trial_id).params)
        # Optuna numbers trials without gaps: trials before this one are sampled first.
        first_missing = number
        while first_missing > 0 and self._find(first_missing - 1) is None:
            first_missing -= 1
        for before in range(first_missing, number):
            self._draw(before, None)
        return self._draw(number, wanted)

    def _draw(self, number: int, wanted: Mapping[str, ParamValue] | None) -> dict[str, ParamValue]:
        """Samples the parameters of a new trial and writes the trial to Optuna's tables."""
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
        """Returns the parameters of a stored trial, in the order of the search space.

        Raises:
            RuntimeError: The parameters do not fit the space: another program has added trials to
                this study in Optuna's tables.
        """
        names = [name for name in self.space if self.space.exists(name, params)]
        if set(names) != set(params):
            raise RuntimeError(
                f"trial {number} of {self.name} has {', '.join(params) or 'nothing'} in Optuna, "
                f"but must have {', '.join(names)}: another program has added it"
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
        """Records the result of a trial in Optuna. Idempotent: only the first result is stored.

        Args:
            number: The trial's number in the study.
            state: The trial's final state.
            values: The final value of each metric; None for a trial without values.
            curve: Step and value of each report; used only in studies with one metric.
            violations: By how much the trial violates each constraint.
            attributes: Optuna user attributes of the trial, for display in Optuna's tools.

        Raises:
            KeyError: The trial has not been sampled.
        """
        study = self._study(number)
        trial_id = self._find(number)
        if trial_id is None:
            raise KeyError(f"trial {number} of {self.name} is unknown to Optuna")
        told = list(values) if values is not None and state is TrialState.COMPLETED else None
        if state is TrialState.PRUNED and curve and len(self.directions) == 1:
            told = [curve[-1][1]]  # Optuna's convention: a pruned trial has its last value
        try:
            known = {CONSTRAINTS: list(violations)} if violations else {}
            describe_trial(
                self.storage,
                trial_id,
                curve=_thinned(curve) if len(self.directions) == 1 else (),
                attributes={**known, **(attributes or {})},
            )
            _call_after_trial(study, trial_id, _STATES[state], told)
            end_trial(self.storage, trial_id, _STATES[state], told)
        except optuna.exceptions.UpdateFinishedTrialError:
            return

    def _find(self, number: int) -> int | None:
        """Returns the id of a trial in Optuna, or None if the trial has not been sampled yet."""
        find = self.storage.get_trial_id_from_study_id_trial_number
        try:
            return find(self._found._study_id, number + self._taken)
        except KeyError:
            return None

    @cached_property
    def _taken(self) -> int:
        """The number of trials that the warm start copied, which come first in Optuna."""
        if not self.is_warm:
            return 0
        return int(self._found.user_attrs[WARM_START]["taken"])

    def open(self) -> optuna.Study:
        """Returns the study in Optuna's tables; creates the study if it does not exist."""
        return self._study(0)

    def _study(self, number: int) -> optuna.Study:
        """Returns the Optuna study with a sampler for one trial.

        The sampler's seed is derived from the seed of the study and, unless the sampler uses one
        seed for all trials, from the trial's number. It does not depend on the process.
        """
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
        """The study in Optuna's tables, which is loaded or created at the first access."""
        try:
            return optuna.load_study(study_name=self.name, storage=self.storage)
        except KeyError:
            return optuna.create_study(
                study_name=self.name,
                storage=self.storage,
                directions=[direction.value for direction in self.directions],
                load_if_exists=True,
            )


def _call_after_trial(
    study: optuna.Study,
    trial_id: int,
    state: optuna.trial.TrialState,
    values: Sequence[float] | None,
) -> None:
    """Calls the hook `after_trial` of the sampler if its class overrides the hook.

    Optuna's `study.tell` would also call the hook, but it always reads the trial from the database
    three times.
    """
    sampler = study.sampler
    if type(sampler).after_trial is optuna.samplers.BaseSampler.after_trial:
        return
    try:
        sampler.after_trial(study, study._storage.get_trial(trial_id), state, values)
    except RuntimeError as error:
        # A sampler that has tried everything stops Optuna's own loop, which does not exist here.
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
