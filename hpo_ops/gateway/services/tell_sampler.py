"""What the sampler hears of trials that have ended; of one with folds once all of them have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hpo_ops.core import TrialState
from hpo_ops.core.fold_aggregation import average, state_of, summarise
from hpo_ops.ledger import StudyRecord
from hpo_ops.ledger.sampler_lock import SamplerLock

if TYPE_CHECKING:
    from sqlalchemy import Row

    from hpo_ops.samplers.optuna_search import Search


@dataclass(frozen=True, kw_only=True)
class SamplerResult:
    """How a trial ended, as the sampler hears of it.

    Attributes:
        trial: Its number for the sampler.
        numbers: Its numbers in the ledger, one for each fold.
        state: How it ended.
        values: A value for each metric; None where there is none.
        curve: What it has reported.
        violations: By how much it violates each constraint.
        attributes: What else is kept of it.
        is_known: The sampler has proposed it.
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
        """Tells the sampler."""
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


def untold(asking: SamplerLock) -> list[SamplerResult]:
    """The trials that have ended and of which the sampler has not heard, by number."""
    if asking.record.config.folds is not None:
        return list(_of_folds(asking))
    return [
        SamplerResult(
            trial=row.number,
            numbers=[row.number],
            state=TrialState(row.state),
            values=_values(asking.record, row),
            curve=curve,
            violations=row.violations or (),
            is_known=row.params is not None,
        )
        for row, curve in asking.untold()
    ]


def _of_folds(asking: SamplerLock) -> Iterator[SamplerResult]:
    """The trials whose folds have all ended, or will never begin."""
    config = asking.record.config
    count = config.fold_count
    for trial, group in groupby(asking.untold(), lambda item: item[0].number // count):
        ended = list(group)
        if len(ended) < count:
            numbers = range(trial * count, (trial + 1) * count)
            if not asking.record.is_over or asking.has_unfinished(numbers):
                continue
        states = [TrialState(row.state) for row, _ in ended]
        missing = [TrialState.PRUNED] * (count - len(states))
        curves = [
            dict(curve)
            for state, (_, curve) in zip(states, ended, strict=True)
            if state is TrialState.COMPLETED
        ]
        averaged = summarise(curves, config.objective.direction)
        attributes: dict[str, Any] = {}
        if averaged is not None:
            attributes = {"folds": list(averaged.values), "deviation": averaged.deviation}
        yield SamplerResult(
            trial=trial,
            numbers=[row.number for row, _ in ended],
            state=state_of([*states, *missing], count),
            values=None if averaged is None else [averaged.mean],
            curve=list(average(curves).items()),
            violations=_worst([row.violations for row, _ in ended if row.violations]),
            attributes=attributes,
            is_known=any(row.params is not None for row, _ in ended),
        )


def _worst(violations: Sequence[Sequence[float]]) -> list[float]:
    """By how much a trial violates each constraint: as much as the worst of its folds."""
    whole = [row for row in violations if len(row) == max(map(len, violations))]
    return [max(column) for column in zip(*whole, strict=True)]


def _values(record: StudyRecord, row: Row[Any]) -> list[float] | None:
    """A trial's values: the best of one metric, the last of several (they belong together)."""
    if row.value is None:
        return None
    objectives = record.config.objectives
    if len(objectives) == 1:
        return [row.value]
    return [row.metrics[metric.name] for metric in objectives]
