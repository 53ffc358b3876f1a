"""What people see of studies with folds: whole trials, with mean and deviation. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from hpo_ops.client import Best, FoldSummary, TrialSummary
from hpo_ops.core import Direction, TrialState
from hpo_ops.core.fold_aggregation import Averaged, average, state_of, summarise
from hpo_ops.ledger import StudyRecord
from hpo_ops.ledger.schema import checkpoints, reports


class Saved(NamedTuple):
    """A checkpoint in the store, by the number of its fold or of the retraining."""

    number: int
    step: int
    uri: str
    digest: str | None = None


@dataclass(frozen=True)
class Folded:
    """A study with folds, as the ledger has it.

    Attributes:
        record: The study.
        parts: Its folds, and the retraining, by number.
        curves: What each of them has reported, by step.
        saved: The checkpoints of each of them.
    """

    record: StudyRecord
    parts: Sequence[TrialSummary]
    curves: Mapping[int, Mapping[int, float]]
    saved: Mapping[int, Sequence[Saved]]

    @classmethod
    def read(
        cls, connection: Connection, record: StudyRecord, parts: Sequence[TrialSummary]
    ) -> Folded:
        """The study as a transaction sees it."""
        curves: dict[int, dict[int, float]] = {part.trial: {} for part in parts}
        saved: dict[int, list[Saved]] = {part.trial: [] for part in parts}
        for row in connection.execute(
            select(reports.c.trial, reports.c.step, reports.c.value)
            .where(reports.c.study_id == record.id)
            .order_by(reports.c.trial, reports.c.step)
        ):
            curves.setdefault(row.trial, {})[row.step] = row.value
        for one in connection.execute(
            select(
                checkpoints.c.trial, checkpoints.c.step, checkpoints.c.uri, checkpoints.c.digest
            )
            .where(checkpoints.c.study_id == record.id)
            .order_by(checkpoints.c.trial, checkpoints.c.step)
        ):
            saved.setdefault(one.trial, []).append(Saved(*one))
        return cls(record, parts, curves, saved)

    # -- trials ------------------------------------------------------------------------------

    @cached_property
    def trials(self) -> list[TrialSummary]:
        """The whole trials, by number."""
        count = self.record.config.fold_count
        folds = [part for part in self.parts if part.trial != self.record.retraining]
        return [
            self._whole(number // count, folds[number : number + count])
            for number in range(0, len(folds), count)
        ]

    def _whole(self, number: int, folds: Sequence[TrialSummary]) -> TrialSummary:
        done = [fold for fold in folds if fold.state is TrialState.COMPLETED]
        found = summarise([self.curves[fold.trial] for fold in done], self._direction)
        state = state_of([fold.state for fold in folds], self.record.config.fold_count)
        if self.record.is_over and not state.is_finished and all(map(_is_finished, folds)):
            state = TrialState.PRUNED
        seconds = [fold.seconds for fold in folds if fold.seconds is not None]
        return TrialSummary(
            trial=number,
            state=state,
            reason=self._reason(folds, found, state),
            step=max(fold.step for fold in folds),
            value=None if found is None else found.mean,
            best_step=None if found is None else found.step,
            params=next((fold.params for fold in folds if fold.params), {}),
            segments=sum(fold.segments for fold in folds),
            seconds=sum(seconds) if seconds else None,
            metrics=_mean_metrics(done),
            is_feasible=all(fold.is_feasible for fold in folds),
            deviation=None if found is None else found.deviation,
            folds=[self._fold(index, fold, found) for index, fold in enumerate(folds)],
        )

    def _fold(self, index: int, fold: TrialSummary, found: Averaged | None) -> FoldSummary:
        value = fold.value
        if found is not None and fold.state is TrialState.COMPLETED:
            value = self.curves[fold.trial][found.step]
        return FoldSummary(
            fold=index,
            number=fold.trial,
            state=fold.state,
            reason=fold.reason,
            step=fold.step,
            value=value,
        )

    def _reason(
        self, folds: Sequence[TrialSummary], found: Averaged | None, state: TrialState
    ) -> str:
        count = self.record.config.fold_count
        if state is TrialState.COMPLETED:
            best = "have no step in common" if found is None else f"are best at step {found.step}"
            return f"{count} folds {best}"
        for index, fold in enumerate(folds):
            if fold.state is TrialState.FAILED:
                return f"fold {index + 1} of {count} failed: {fold.reason}"
        for fold in folds:
            if fold.state is TrialState.PRUNED:
                return fold.reason
        done = sum(fold.state is TrialState.COMPLETED for fold in folds)
        return f"{done} of {count} folds are trained"

    @property
    def _direction(self) -> Direction:
        return self.record.config.objective.direction

    # -- the best ----------------------------------------------------------------------------

    @cached_property
    def ranked(self) -> list[TrialSummary]:
        """The trials that have all of their folds and violate no constraint, best first."""
        known = {
            trial.trial: self._direction.to_score(trial.value)
            for trial in self.trials
            if trial.state is TrialState.COMPLETED
            and trial.is_feasible
            and trial.value is not None
        }
        order = sorted(known, key=lambda number: (-known[number], number))
        return [self.trials[number] for number in order]

    @property
    def best(self) -> Best | None:
        """The best trial, and the checkpoint that stands for it.

        That is the one that was trained on all data, if there is one. Otherwise it is that of its
        best fold, at the best step of the averaged curve that a fold has saved.
        """
        if not self.ranked:
            return None
        trial = self.ranked[0]
        retrained = self._retrained
        saved = retrained or self._best_saved(trial)
        is_of_fold = saved is not None and retrained is None
        published = (self.record.result or {}).get("best", {}).get("checkpoint_uri")
        return Best(
            trial=trial.trial,
            value=trial.value or 0.0,
            step=trial.best_step or 0,
            params=trial.params,
            deviation=trial.deviation,
            folds=[fold.value or 0.0 for fold in trial.folds],
            checkpoint_uri=published or (saved and saved.uri),
            checkpoint_step=saved and saved.step,
            checkpoint_digest=saved and saved.digest,
            checkpoint_trial=saved and saved.number,
            checkpoint_value=(
                self.curves[saved.number][saved.step] if saved and is_of_fold else None
            ),
            checkpoint_fold=(
                saved.number % self.record.config.fold_count if saved and is_of_fold else None
            ),
            is_retrained=retrained is not None,
            served=self.parts[saved.number].served if saved else None,
        )

    @property
    def _retrained(self) -> Saved | None:
        """The last checkpoint of the retraining, once it is done."""
        number = self.record.retraining
        if number is None or self.parts[number].state is not TrialState.COMPLETED:
            return None
        return max(self.saved[number], key=lambda saved: saved.step, default=None)

    def _best_saved(self, trial: TrialSummary) -> Saved | None:
        numbers = [fold.number for fold in trial.folds if fold.state is TrialState.COMPLETED]
        means = average([self.curves[number] for number in numbers])
        return max(
            (saved for number in numbers for saved in self.saved[number] if saved.step in means),
            key=lambda saved: (
                self._direction.to_score(means[saved.step]),
                self._direction.to_score(self.curves[saved.number][saved.step]),
                -saved.step,
            ),
            default=None,
        )

    def kept(self) -> list[Saved]:
        """A checkpoint of each of the best trials, the retraining's, and the newest of others."""
        best = self.ranked[: self.record.config.checkpoints.keep]
        found = [self._retrained, *map(self._best_saved, best)]
        for part in self.parts:
            if not part.state.is_finished and self.saved[part.trial]:
                found.append(max(self.saved[part.trial], key=lambda saved: saved.step))
        return [saved for saved in found if saved is not None]

    def curve(self, number: int) -> list[dict[str, Any]]:
        """The averaged curve of a trial's folds that have ended, as reports."""
        metric = self.record.config.objective.name
        folds = self.trials[number].folds if number < len(self.trials) else []
        done = [fold.number for fold in folds if fold.state is TrialState.COMPLETED]
        means = average([self.curves[number] for number in done])
        return [
            {"step": step, "metrics": {metric: mean}, "seconds": 0.0}
            for step, mean in means.items()
        ]


def _is_finished(part: TrialSummary) -> bool:
    return part.state.is_finished


def _mean_metrics(folds: Sequence[TrialSummary]) -> dict[str, float]:
    """The mean of each metric that all folds have reported last."""
    if not folds:
        return {}
    shared = [name for name in folds[0].metrics if all(name in fold.metrics for fold in folds)]
    return {name: fmean(fold.metrics[name] for fold in folds) for name in shared}
