"""Holds a new Optuna trial in memory until all its parameters are sampled.

The trial is then written in one transaction, so that a crash never leaves a trial with only some
of its parameters in the database.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from optuna.trial import FrozenTrial, TrialState, create_trial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage

DRAFT = -1
"""Trial id of a draft; the database assigns the final id when the trial is written."""


class Draft:
    """A wrapper of an Optuna storage that adds one running trial, the draft, in memory only.

    Methods that are not defined here are forwarded to the wrapped storage.

    Args:
        storage: The storage of the study.
        number: The number of the draft in its study.
        attributes: Optuna system attributes of the draft.
    """

    def __init__(self, storage: BaseStorage, number: int, **attributes: Any) -> None:
        self._storage = storage
        self.trial = create_trial(state=TrialState.RUNNING, system_attrs=attributes)
        self.trial.number = number
        self.trial._trial_id = DRAFT

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def write(self, study_id: int) -> None:
        """Writes the draft to a study in the wrapped storage, in one transaction."""
        self._storage.create_new_trial(study_id, template_trial=self.trial)

    # -- methods of a storage that samplers and `optuna.Trial` call ---------------------------

    def get_trial(self, trial_id: int) -> FrozenTrial:
        return self.trial if trial_id == DRAFT else self._storage.get_trial(trial_id)

    def get_trial_system_attrs(self, trial_id: int) -> dict[str, Any]:
        return self.get_trial(trial_id).system_attrs

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        written = self._storage.get_all_trials(study_id, deepcopy=deepcopy, states=states)
        is_included = states is None or TrialState.RUNNING in states
        return [*written, self.trial] if is_included else written

    def set_trial_param(
        self,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
    ) -> None:
        self._require_draft(trial_id)
        self.trial.params[param_name] = distribution.to_external_repr(param_value_internal)
        self.trial.distributions[param_name] = distribution

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        if trial_id == DRAFT:
            self.trial.system_attrs[key] = value
        else:
            self._storage.set_trial_system_attr(trial_id, key, value)

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        self._require_draft(trial_id)
        self.trial.user_attrs[key] = value

    def _require_draft(self, trial_id: int) -> None:
        if trial_id != DRAFT:
            raise ValueError(f"trial {trial_id} is not the draft, and cannot be changed here")
