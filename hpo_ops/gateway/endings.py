"""What the sampler hears of trials that have ended; of one with folds once all of them have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpo_ops.core import TrialState
from hpo_ops.core.folds import average, folds_of, state_of, summarise
from hpo_ops.ledger import StudyRecord, StudySession
from hpo_ops.ledger.telling import untold as untold_rows

if TYPE_CHECKING:
    from sqlalchemy import Row

    from hpo_ops.samplers.search import Search


@dataclass(frozen=True, kw_only=True)
class Ending:
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


def untold(session: StudySession) -> list[Ending]:
    """The trials that have ended and of which the sampler has not heard, by number."""
    rows = untold_rows(session)
    if session.record.config.folds is not None:
        trials = dict.fromkeys(row.number // session.record.config.fold_count for row in rows)
        return list(_of_folds(session, list(trials)))
    return [
        Ending(
            trial=row.number,
            numbers=[row.number],
            state=TrialState(row.state),
            values=_values(session.record, row),
            curve=session.curve(row.number),
            violations=row.violations or (),
            is_known=row.params is not None,
        )
        for row in rows
    ]


def _of_folds(session: StudySession, trials: Sequence[int]) -> Iterator[Ending]:
    """Those of the trials whose folds have all ended, or will never begin."""
    count, direction = session.record.config.fold_count, session.view.goal.direction
    for trial in trials:
        states = [fold.state for fold in folds_of(session.view, trial).values()]
        is_cut_short = session.record.is_over and all(state.is_finished for state in states)
        if not state_of(states, count).is_finished and not is_cut_short:
            continue
        missing = [TrialState.PRUNED] * (count - len(states))
        numbers = [trial * count + fold for fold in range(len(states))]
        rows = session.trials(numbers)
        curves = [
            dict(session.curve(number))
            for number, row in rows.items()
            if row.state == TrialState.COMPLETED.value
        ]
        averaged = summarise(curves, direction)
        attributes: dict[str, Any] = {}
        if averaged is not None:
            attributes = {"folds": list(averaged.values), "deviation": averaged.deviation}
        yield Ending(
            trial=trial,
            numbers=numbers,
            state=state_of([*states, *missing], count),
            values=None if averaged is None else [averaged.mean],
            curve=list(average(curves).items()),
            violations=_worst([row.violations for row in rows.values() if row.violations]),
            attributes=attributes,
            is_known=any(row.params is not None for row in rows.values()),
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
