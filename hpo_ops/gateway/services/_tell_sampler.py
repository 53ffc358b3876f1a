"""Passes the results of finished trials to the sampler.

Under cross-validation, the result of a trial has the mean values of its folds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hpo_ops.core import TrialState
from hpo_ops.core.fold_aggregation import average, state_of, summarise
from hpo_ops.ledger import StudyRecord
from hpo_ops.ledger.rows import TrialRow
from hpo_ops.ledger.sampler_lock import SamplerLock

if TYPE_CHECKING:
    from hpo_ops.samplers.optuna_search import Search


@dataclass(frozen=True, kw_only=True)
class SamplerResult:
    """The result of a finished trial in the form that the sampler receives.

    Attributes:
        trial: The trial's number in the sampler, which counts trials and not folds.
        numbers: The trial's numbers in the ledger, one for each fold.
        state: The trial's final state.
        values: A value for each objective; None if the trial has no value.
        curve: The trial's learning curve as pairs of step and value.
        violations: By how much the trial violates each constraint.
        attributes: User attributes to set on Optuna's trial.
        is_known: Whether the trial has parameters that the sampler proposed. The sampler does not
            receive the results of other trials.
    """

    trial: int
    numbers: Sequence[int]
    state: TrialState
    values: list[float] | None
    curve: Sequence[tuple[int, float]]
    violations: Sequence[float] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    is_known: bool = True

    def tell(self, search: Search) -> None:
        """Passes this result to the sampler; completed trials without a value count as failed."""
        if not self.is_known:
            return
        is_empty = self.state is TrialState.COMPLETED and self.values is None
        search.tell(
            self.trial,
            TrialState.FAILED if is_empty else self.state,
            values=self.values,
            curve=self.curve,
            violations=self.violations,
            attributes=self.attributes,
        )


def untold_results(sampler: SamplerLock) -> list[SamplerResult]:
    """Returns the results that the sampler has not received yet, in the order of trial numbers."""
    if sampler.record.config.folds is not None:
        return list(_results_of_folds(sampler))
    return [
        SamplerResult(
            trial=trial.row.number,
            numbers=[trial.row.number],
            state=trial.row.state,
            values=_values(sampler.record, trial.row),
            curve=trial.curve,
            violations=trial.row.violations or (),
            is_known=trial.row.params is not None,
        )
        for trial in sampler.untold_trials()
    ]


def _results_of_folds(sampler: SamplerLock) -> Iterator[SamplerResult]:
    """Yields the results of trials whose folds have all finished or will never start."""
    config = sampler.record.config
    count = config.fold_count
    for trial, group in groupby(sampler.untold_trials(), lambda fold: fold.row.number // count):
        folds = list(group)
        if len(folds) < count:
            numbers = range(trial * count, (trial + 1) * count)
            if not sampler.record.is_over or sampler.has_unfinished(numbers):
                continue
        states = [fold.row.state for fold in folds]
        missing = [TrialState.PRUNED] * (count - len(states))
        curves = [dict(fold.curve) for fold in folds if fold.row.state is TrialState.COMPLETED]
        averaged = summarise(curves, config.objective.direction)
        attributes: dict[str, Any] = {}
        if averaged is not None:
            attributes = {"folds": list(averaged.values), "deviation": averaged.deviation}
        yield SamplerResult(
            trial=trial,
            numbers=[fold.row.number for fold in folds],
            state=state_of([*states, *missing], count),
            values=None if averaged is None else [averaged.mean],
            curve=list(average(curves).items()),
            violations=_largest([fold.row.violations for fold in folds if fold.row.violations]),
            attributes=attributes,
            is_known=any(fold.row.params is not None for fold in folds),
        )


def _largest(violations: Sequence[Sequence[float]]) -> list[float]:
    """Returns for each constraint the largest violation among the folds of a trial.

    A fold that was pruned before it ran may have fewer violations than there are constraints. Such
    a fold is ignored if another fold has more violations.
    """
    complete = [row for row in violations if len(row) == max(map(len, violations))]
    return [max(column) for column in zip(*complete, strict=True)]


def _values(record: StudyRecord, row: TrialRow) -> list[float] | None:
    """Returns a trial's values, one for each objective, or None if the trial has no value.

    For a single objective, the value is the best value. For several objectives, the values are
    those of the trial's last report, so that all values belong to the same step.
    """
    if row.value is None:
        return None
    objectives = record.config.objectives
    if len(objectives) == 1:
        return [row.value]
    metrics = row.metrics or {}
    return [metrics[metric.name] for metric in objectives]
