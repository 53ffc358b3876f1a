"""Trials that were run elsewhere: read from an Optuna storage, written to a study of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import optuna

from hpo_ops.protocol import ParamValue
from hpo_ops.samplers.distributions import to_distribution
from hpo_ops.samplers.optuna_search import Search
from hpo_ops.samplers.warm_start_trials import FROM

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


@dataclass(frozen=True, kw_only=True)
class KnownTrial:
    """A completed trial whose parameters are a point of the space.

    Attributes:
        number: Its number where it was run.
        params: Its parameters.
        values: A value for each metric.
        curve: Its reports (step, value).
    """

    number: int
    params: Mapping[str, ParamValue]
    values: Sequence[float]
    curve: Sequence[tuple[int, float]] = field(default=())


def study_names(storage: BaseStorage) -> list[str]:
    """The studies of a storage."""
    return sorted(study.study_name for study in optuna.get_all_study_summaries(storage))


def add_trials(search: Search, source: str, trials: Sequence[KnownTrial]) -> None:
    """Writes trials to a study in Optuna's tables, each once however often it is called."""
    study = search.open()
    there = {trial.user_attrs.get(FROM) for trial in study.get_trials(deepcopy=False)}
    for trial in trials:
        mark = f"{source}#{trial.number}"
        if mark in there:
            continue
        study.add_trial(
            optuna.trial.create_trial(
                values=list(trial.values),
                params=dict(trial.params),
                distributions={name: to_distribution(search.space[name]) for name in trial.params},
                intermediate_values=dict(trial.curve),
                user_attrs={FROM: mark},
            )
        )
