"""Reads and writes the ledger's records of one study's checkpoints."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert as upsert

from hpo_ops.ledger import _schema
from hpo_ops.ledger._policy_view import EventKind
from hpo_ops.ledger._study_history import StudyHistory
from hpo_ops.protocol import Checkpoint


class CheckpointTable:
    """The complete checkpoints of one study, within one transaction that holds the study's lock.

    The ledger records the URIs of checkpoints and the digests of their manifests; the files are in
    the object store.
    """

    def __init__(self, history: StudyHistory) -> None:
        self._history = history
        self._connection = history.connection
        self._study_id = history.study_id

    # -- queries -----------------------------------------------------------------------------

    def has_any(self, trial: int) -> bool:
        """Returns whether at least one checkpoint of a trial is recorded."""
        table = _schema.checkpoints
        found = self._connection.execute(
            select(table.c.step)
            .where(table.c.study_id == self._study_id, table.c.trial == trial)
            .limit(1)
        )
        return found.first() is not None

    def newest(self, trial: int, *, at_most: int, uri_prefix: str, limit: int) -> list[Checkpoint]:
        """Lists the checkpoints of a trial with the highest steps, highest step first.

        Args:
            trial: Number of the trial.
            at_most: Highest step that a listed checkpoint may have.
            uri_prefix: Prefix that the URI of a listed checkpoint must have.
            limit: Maximum number of checkpoints to return.
        """
        table = _schema.checkpoints
        rows = self._connection.execute(
            select(table.c.step, table.c.uri, table.c.files, table.c.bytes, table.c.digest)
            .where(
                table.c.study_id == self._study_id,
                table.c.trial == trial,
                table.c.step <= at_most,
                table.c.uri.startswith(uri_prefix, autoescape=True),
            )
            .order_by(table.c.step.desc())
            .limit(limit)
        )
        return [Checkpoint(**row._mapping) for row in rows]

    def find_uri(self, trial: int, step: int, *, runner: str) -> str | None:
        """Returns the URI of a trial's checkpoint at a step.

        Returns None if no checkpoint is recorded at this step, or if the segment that saved it was
        executed by another runner than ``runner``.
        """
        table, segments = _schema.checkpoints, _schema.segments
        return self._connection.execute(
            select(table.c.uri)
            .join(segments, segments.c.id == table.c.segment_id)
            .where(
                table.c.study_id == self._study_id,
                table.c.trial == trial,
                table.c.step == step,
                segments.c.runner == runner,
            )
        ).scalar_one_or_none()

    # -- commands ----------------------------------------------------------------------------

    def add(
        self, trial: int, segment_id: str, checkpoint: Checkpoint, *, replaces: bool = False
    ) -> None:
        """Records that a checkpoint is complete in the store.

        Args:
            trial: Number of the trial.
            segment_id: Id of the segment that saved the checkpoint.
            checkpoint: The checkpoint.
            replaces: Whether to overwrite the record of an earlier checkpoint of the same trial
                and step, as when a resumed trial trains a step again. If False, the earlier record
                stays.
        """
        table = _schema.checkpoints
        values = {"segment_id": segment_id, **checkpoint.to_dict()}
        added = self._connection.execute(
            upsert(table)
            .values(study_id=self._study_id, trial=trial, **values)
            .on_conflict_do_nothing()
        )
        if added.rowcount:
            data = {"step": checkpoint.step, "bytes": checkpoint.bytes}
            self._history.append(EventKind.CHECKPOINT, trial, data)
        elif replaces:
            self._connection.execute(
                update(table)
                .where(
                    table.c.study_id == self._study_id,
                    table.c.trial == trial,
                    table.c.step == checkpoint.step,
                )
                .values(**values)
            )

    def forget_except(self, kept: Collection[tuple[int, int]]) -> None:
        """Deletes the ledger's records of all checkpoints of the study that are not in `kept`.

        Args:
            kept: Trial number and step of each checkpoint to keep. Records of other trials with
                the same URI, which the score cache creates, stay too.
        """
        table = _schema.checkpoints
        is_mine = table.c.study_id == self._study_id
        kept_uris = select(table.c.uri).where(
            is_mine, tuple_(table.c.trial, table.c.step).in_(sorted(kept))
        )
        self._connection.execute(delete(table).where(is_mine, table.c.uri.not_in(kept_uris)))
