"""Queries of the score cache, which replays reports of an earlier trial instead of training again.

Trials with the same cache key have the same code, data, hyperparameters and seed, and would
therefore report the same metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, exists, func, or_, select, text, true, tuple_

from hpo_ops.ledger._schema import checkpoints, leases, reports, segments, studies, trials
from hpo_ops.ledger._study_record import StudyRecord
from hpo_ops.ledger.rows import TrialRow
from hpo_ops.ledger.study_sharing import shares_with
from hpo_ops.protocol import Checkpoint, Outcome, Report

MAX_SOURCES = 8
"""Maximum number of source trials that `CachedTrials.sources` returns."""


@dataclass(frozen=True)
class CacheSource:
    """A source trial: its reports may be replayed into another trial with the same cache key.

    Attributes:
        study_id: Id of the source trial's study.
        study: Key of the source trial's study.
        trial: Number of the source trial.
        step: Last reported step of the source trial.
        is_complete: Whether the training reached its own end, without a step limit.
    """

    study_id: int
    study: str
    trial: int
    step: int
    is_complete: bool

    def covers(self, until_step: int | None) -> bool:
        """Returns whether the source trial has reported all steps that another trial would train.

        Args:
            until_step: Last step of the other trial; None if it trains to the training's own end.
        """
        return self.is_complete if until_step is None else self.step >= until_step

    def __str__(self) -> str:
        return f"trial {self.trial} of {self.study}"


@dataclass(frozen=True)
class CachedTrials:
    """Trials with the same cache key, in one study and in the studies that share trials with it.

    Other studies are read without locking them, so that their trials may add reports at any time.

    Attributes:
        connection: A connection with an open transaction.
        record: The study for whose trials sources are searched.
    """

    connection: Connection
    record: StudyRecord

    def lock(self, cache_key: str) -> None:
        """Locks a cache key until the commit, after waiting for other transactions to release it.

        Two studies can therefore not start the same training concurrently: the second study sees
        the first study's segment (`find_in_training`).
        """
        self.connection.execute(
            text("SELECT pg_advisory_xact_lock(:key)"),
            {"key": int(cache_key[:16], 16) - (1 << 63)},
        )

    def sources(self, trial: TrialRow) -> list[CacheSource]:
        """Lists the trials whose reports may be replayed into a trial, at most `MAX_SOURCES`.

        They have the cache key of `trial`, and have reported more steps than `trial` or were
        trained to the training's own end.

        Trials of this study come first, then trials that were trained before trials that were
        served from the cache, then trials with more steps.
        """
        is_complete = exists().where(
            segments.c.study_id == trials.c.study_id,
            segments.c.trial == trials.c.number,
            segments.c.outcome == Outcome.COMPLETED.value,
            segments.c.until_step.is_(None),
        )
        found = self.connection.execute(
            select(
                trials.c.study_id,
                trials.c.number,
                trials.c.step,
                studies.c.key,
                is_complete.label("is_complete"),
            )
            .join(studies, studies.c.id == trials.c.study_id)
            .where(
                trials.c.cache_key == trial.cache_key,
                shares_with(self.record),
                _is_another(self.record.id, trial.number),
                or_(trials.c.step > trial.step, is_complete),
                trials.c.step > 0,
            )
            .order_by(
                (trials.c.study_id != self.record.id),
                trials.c.served.is_not(None),
                trials.c.step.desc(),
                trials.c.study_id,
                trials.c.number,
            )
            .limit(MAX_SOURCES)
        )
        return [
            CacheSource(row.study_id, row.key, row.number, row.step, row.is_complete)
            for row in found
        ]

    def find_in_training(self, trial: TrialRow) -> str | None:
        """Returns which other trial with the same cache key is being trained, as text.

        Returns None if no such trial is being trained.
        """
        found = self.connection.execute(
            select(trials.c.number, studies.c.key)
            .join(studies, studies.c.id == trials.c.study_id)
            .where(
                trials.c.cache_key == trial.cache_key,
                shares_with(self.record),
                _is_another(self.record.id, trial.number),
                exists().where(*_has_live_segment()),
            )
            .limit(1)
        ).one_or_none()
        return None if found is None else f"trial {found.number} of {found.key}"

    def waiting_for_another(self, numbers: Sequence[int]) -> set[int]:
        """Returns numbers of the given trials whose cache key another trial in training has."""
        mine = trials.alias()
        is_in_training = exists().where(
            trials.c.cache_key == mine.c.cache_key,
            studies.c.id == trials.c.study_id,
            shares_with(self.record),
            _is_another(mine.c.study_id, mine.c.number),
            *_has_live_segment(),
        )
        found = self.connection.execute(
            select(mine.c.number).where(
                mine.c.study_id == self.record.id, mine.c.number.in_(numbers), is_in_training
            )
        )
        return set(found.scalars())

    def checkpoints_of(
        self, source: CacheSource, *, at_most: int | None, uri_prefix: str
    ) -> dict[int, Checkpoint]:
        """Returns the recorded checkpoints of a source trial, by step.

        Args:
            source: The source trial.
            at_most: Highest step that a returned checkpoint may have; None for no limit.
            uri_prefix: Prefix that the URI of a returned checkpoint must have.
        """
        table = checkpoints
        rows = self.connection.execute(
            select(table.c.step, table.c.uri, table.c.files, table.c.bytes, table.c.digest).where(
                table.c.study_id == source.study_id,
                table.c.trial == source.trial,
                table.c.uri.startswith(uri_prefix, autoescape=True),
                true() if at_most is None else table.c.step <= at_most,
            )
        )
        return {row.step: Checkpoint(**row._mapping) for row in rows}

    def reports_of(
        self, source: CacheSource, *, after: int, until_step: int | None
    ) -> list[Report]:
        """Lists the reports of a source trial in a range of steps, sorted by step.

        Args:
            source: The source trial.
            after: Only reports of later steps are listed.
            until_step: Last step to list; None for no upper limit.
        """
        rows = self.connection.execute(
            select(reports.c.step, reports.c.metrics, reports.c.seconds)
            .where(
                reports.c.study_id == source.study_id,
                reports.c.trial == source.trial,
                reports.c.step > after,
                true() if until_step is None else reports.c.step <= until_step,
            )
            .order_by(reports.c.step)
        )
        return [Report(**row._mapping) for row in rows]


def _is_another(study_id: Any, number: Any) -> ColumnElement[bool]:
    return tuple_(trials.c.study_id, trials.c.number) != tuple_(study_id, number)


def _has_live_segment() -> list[ColumnElement[bool]]:
    """Returns SQL conditions that select a trial in training.

    Such a trial has an open segment whose lease has not expired. The conditions join rows of the
    tables `trials`, `segments` and `leases`.
    """
    return [
        segments.c.study_id == trials.c.study_id,
        segments.c.trial == trials.c.number,
        segments.c.outcome.is_(None),
        leases.c.segment_id == segments.c.id,
        leases.c.expires_at > func.now(),
    ]
