"""Read model of a study with cross-validation folds: aggregated trials and their checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hpo_ops.client import Best, TrialSummary
from hpo_ops.core import Direction, TrialState
from hpo_ops.core.fold_aggregation import average
from hpo_ops.gateway.queries._trial_summaries import aggregate_folds, summarise_trial
from hpo_ops.ledger import LedgerConnection, StudyRecord
from hpo_ops.ledger.checkpoint_ranking import SavedCheckpoint, list_checkpoints
from hpo_ops.ledger.learning_curves import read_curves
from hpo_ops.ledger.trial_listing import list_trials


def fold_numbers(record: StudyRecord, trial: int) -> range:
    """Returns the numbers under which the ledger records the folds of a trial.

    In a study without folds, this is only the number of the trial itself.
    """
    count = record.config.fold_count
    return range(trial * count, (trial + 1) * count)


def read_folded_study(connection: LedgerConnection, record: StudyRecord) -> FoldedStudy:
    """Reads all folds and the retraining of a study, with learning curves and checkpoints."""
    parts = [summarise_trial(row) for row in list_trials(connection, record.id)]
    curves = read_curves(connection, record.id)
    checkpoints: dict[int, list[SavedCheckpoint]] = {part.trial: [] for part in parts}
    for checkpoint in list_checkpoints(connection, record.id):
        checkpoints.setdefault(checkpoint.trial, []).append(checkpoint)
    return FoldedStudy(
        record=record,
        parts=parts,
        curves={part.trial: curves.get(part.trial, {}) for part in parts},
        checkpoints=checkpoints,
    )


@dataclass(frozen=True, kw_only=True)
class FoldedStudy:
    """A study with folds at the time at which its rows were read.

    A part is a row of the ledger's table of trials: either one fold of a trial, or the retraining
    (the training of the best hyperparameters on all data).

    Attributes:
        record: The study.
        parts: Summaries of all parts, sorted by part number.
        curves: Learning curves by part number.
        checkpoints: Checkpoints by part number.
    """

    record: StudyRecord
    parts: Sequence[TrialSummary]
    curves: Mapping[int, Mapping[int, float]]
    checkpoints: Mapping[int, Sequence[SavedCheckpoint]]

    @property
    def _direction(self) -> Direction:
        return self.record.config.objective.direction

    @cached_property
    def trials(self) -> list[TrialSummary]:
        """The aggregated trials, sorted by number, without the retraining."""
        count = self.record.config.fold_count
        folds = [part for part in self.parts if part.trial != self.record.retraining]
        return [
            aggregate_folds(self.record, start // count, folds[start : start + count], self.curves)
            for start in range(0, len(folds), count)
        ]

    @cached_property
    def ranked_trials(self) -> list[TrialSummary]:
        """The completed, feasible aggregated trials, sorted by value (best first) and number."""
        scores = {
            trial.trial: self._direction.to_score(trial.value)
            for trial in self.trials
            if trial.state is TrialState.COMPLETED
            and trial.is_feasible
            and trial.value is not None
        }
        order = sorted(scores, key=lambda number: (-scores[number], number))
        return [self.trials[number] for number in order]

    @property
    def best(self) -> Best | None:
        """The best trial with its representative checkpoint; None if `ranked_trials` is empty.

        If the retraining has completed, the checkpoint is the last checkpoint of the retraining.
        Otherwise it is a checkpoint of one fold: first the step with the best mean over the folds
        is chosen among the steps with a checkpoint, then the fold with the best value at the step.
        """
        if not self.ranked_trials:
            return None
        trial = self.ranked_trials[0]
        retrained = self._retrained_checkpoint
        checkpoint = retrained or self._best_checkpoint(trial)
        published = (self.record.result or {}).get("best", {}).get("checkpoint_uri")
        best = Best(
            trial=trial.trial,
            value=trial.value or 0.0,
            step=trial.best_step or 0,
            params=trial.params,
            deviation=trial.deviation,
            folds=[fold.value or 0.0 for fold in trial.folds],
            checkpoint_uri=published,
            is_retrained=retrained is not None,
        )
        return best if checkpoint is None else self._with_checkpoint(best, checkpoint)

    def _with_checkpoint(self, best: Best, checkpoint: SavedCheckpoint) -> Best:
        number, step = checkpoint.trial, checkpoint.step
        return replace(
            best,
            checkpoint_uri=best.checkpoint_uri or checkpoint.uri,
            checkpoint_step=step,
            checkpoint_digest=checkpoint.digest,
            checkpoint_trial=number,
            checkpoint_value=None if best.is_retrained else self.curves[number][step],
            checkpoint_fold=(
                None if best.is_retrained else number % self.record.config.fold_count
            ),
            served=self.parts[number].served,
        )

    @property
    def _retrained_checkpoint(self) -> SavedCheckpoint | None:
        """The last checkpoint of the retraining; None unless the retraining has completed."""
        number = self.record.retraining
        if number is None or self.parts[number].state is not TrialState.COMPLETED:
            return None
        return max(self.checkpoints[number], key=lambda saved: saved.step, default=None)

    def _best_checkpoint(self, trial: TrialSummary) -> SavedCheckpoint | None:
        numbers = [fold.number for fold in trial.folds if fold.state is TrialState.COMPLETED]
        means = average([self.curves[number] for number in numbers])
        to_score = self._direction.to_score
        return max(
            (
                saved
                for number in numbers
                for saved in self.checkpoints[number]
                if saved.step in means
            ),
            key=lambda saved: (
                to_score(means[saved.step]),
                to_score(self.curves[saved.trial][saved.step]),
                -saved.step,
            ),
            default=None,
        )

    def kept_checkpoints(self) -> list[SavedCheckpoint]:
        """Lists the checkpoints of the study that must not be deleted.

        These are the representative checkpoint (see `best`) of each of the best trials, as many as
        ``checkpoints.keep`` in the study file, the last checkpoint of the completed retraining,
        and the newest checkpoint of each unfinished fold, which may be resumed.
        """
        best = self.ranked_trials[: self.record.config.checkpoints.keep]
        kept = [self._retrained_checkpoint, *map(self._best_checkpoint, best)]
        for part in self.parts:
            if not part.state.is_finished and self.checkpoints[part.trial]:
                kept.append(max(self.checkpoints[part.trial], key=lambda saved: saved.step))
        return [saved for saved in kept if saved is not None]
