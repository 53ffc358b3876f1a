"""The results of finished trials that a sampler is told, averaged over folds where there are."""

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
    """How a trial ended, as the sampler is told.

    Attributes:
        trial: Its number for the sampler, which counts trials and not folds.
        numbers: Its numbers in the ledger, one for each fold.
        state: How it ended.
        values: A value for each metric; None without any report.
        curve: Its learning curve.
        violations: By how much it violates each constraint.
        attributes: User attributes of Optuna's trial.
        is_known: Whether the sampler proposed it. The sampler is not told of any other trial.
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
        """Tells the sampler. A completed trial without a value counts as failed."""
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
    """The finished trials that the sampler was not told of yet, by number."""
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
    """The trials whose folds have all finished, or will never begin."""
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
    """By how much a trial violates each constraint: the largest violation of its folds.

    A fold that was refused before it ran has fewer violations than there are constraints; it
    counts only where no fold has more.
    """
    complete = [row for row in violations if len(row) == max(map(len, violations))]
    return [max(column) for column in zip(*complete, strict=True)]


def _values(record: StudyRecord, row: TrialRow) -> list[float] | None:
    """A trial's values: the best of a single metric, the last of several, which go together."""
    if row.value is None:
        return None
    objectives = record.config.objectives
    if len(objectives) == 1:
        return [row.value]
    metrics = row.metrics or {}
    return [metrics[metric.name] for metric in objectives]
