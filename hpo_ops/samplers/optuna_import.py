"""Writes imported trials to a study in Optuna's tables, for `hpo import`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import optuna

from hpo_ops.protocol import ParamValue
from hpo_ops.samplers._distributions import to_distribution
from hpo_ops.samplers.optuna_search import Search
from hpo_ops.samplers.warm_start_trials import FROM

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


@dataclass(frozen=True, kw_only=True)
class KnownTrial:
    """A completed trial of another study, whose parameters are valid in this study's space.

    Attributes:
        number: The trial's number in the other study.
        params: The trial's parameters.
        values: The final value of each metric.
        curve: Step and objective value of each report of the trial.
    """

    number: int
    params: Mapping[str, ParamValue]
    values: Sequence[float]
    curve: Sequence[tuple[int, float]] = field(default=())


def study_names(storage: BaseStorage) -> list[str]:
    """Returns the names of all studies in an Optuna storage, sorted."""
    return sorted(study.study_name for study in optuna.get_all_study_summaries(storage))


def add_trials(search: Search, source: str, trials: Sequence[KnownTrial]) -> None:
    """Writes trials of another study to a study in Optuna's tables.

    Idempotent: trials that an earlier call has written are skipped.

    Args:
        search: The interface to the study to write to.
        source: Name of the other study.
        trials: The trials to write.
    """
    study = search.open()
    written = {trial.user_attrs.get(FROM) for trial in study.get_trials(deepcopy=False)}
    for trial in trials:
        origin = f"{source}#{trial.number}"
        if origin in written:
            continue
        study.add_trial(
            optuna.trial.create_trial(
                values=list(trial.values),
                params=dict(trial.params),
                distributions={name: to_distribution(search.space[name]) for name in trial.params},
                intermediate_values=dict(trial.curve),
                user_attrs={FROM: origin},
            )
        )
