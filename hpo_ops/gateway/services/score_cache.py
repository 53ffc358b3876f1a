"""The score cache: what was trained before, here or in another study, is not trained again.

A trial is served when it is about to start a segment. Reports of the trial like it are replayed
into it one by one, through the scheduler, as if they had been trained; where they end too early it
goes on from the other's checkpoint. A trial whose like trains at this moment waits for it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, exists, func, or_, select, text, true, tuple_

from hpo_ops.client import Served
from hpo_ops.config.runner_registry import find_runner
from hpo_ops.core.cache_keys import cache_key, canonical_params, seed_of_params
from hpo_ops.gateway.services import study_transitions
from hpo_ops.gateway.services.saved_checkpoints import store_prefix
from hpo_ops.ledger import StudyRecord, StudySession
from hpo_ops.ledger.schema import checkpoints, leases, reports, segments, studies, trials
from hpo_ops.ledger.study_sharing import shares_with
from hpo_ops.protocol import Cause, Checkpoint, Outcome, ParamValue, Report, SegmentResult

if TYPE_CHECKING:
    from sqlalchemy import Row

logger = logging.getLogger(__name__)

RUNNER = "cache"
"""What a segment that was served instead of trained has as its runner."""
MOST_SOURCES = 8


def identity(
    record: StudyRecord, params: Mapping[str, ParamValue], *, fold: int | None = None
) -> dict[str, Any]:
    """The seed and the cache key of a trial with these parameters, where they depend on them.

    Args:
        record: The study.
        params: The parameters.
        fold: The fold, in a study with folds; None trains on all data there.
    """
    config = record.config
    same = canonical_params(config.space, params)
    seed = config.trial_seed
    if seed is None:
        seed = seed_of_params(config.seed, same)
    if not config.cache:
        return {} if config.trial_seed is None else {"seed": seed}
    here = f"only in {record.key}"  # what is not known is like nothing in another study
    made_of = {
        "code": None if config.code is None else record.origin.code_hash or here,
        "image": record.origin.image or config.image,
        "command": config.command,
        "env": config.env,
        "deterministic": config.deterministic,
        "data": here if config.data.version is None else {"version": config.data.version},
        **find_runner(config.runner).cache_parts(config),
    }
    part = "" if config.folds is None else f"{'all' if fold is None else fold}/{config.fold_count}"
    key = cache_key(made_of=made_of, params=same, seed=seed, fold=part)
    return {"seed": seed, "cache_key": key}


@dataclass(frozen=True)
class Source:
    """A trial like the one that is to run, and what it has to give.

    Attributes:
        study_id: Its study.
        study: The key of its study.
        trial: Its number.
        step: Its last reported step.
        is_whole: Its training has ended by itself.
    """

    study_id: int
    study: str
    trial: int
    step: int
    is_whole: bool

    def covers(self, until_step: int | None) -> bool:
        """Whether nothing is left to train up to a step; None is the training's own end."""
        return self.is_whole if until_step is None else self.step >= until_step

    def __str__(self) -> str:
        return f"trial {self.trial} of {self.study}"


def serve(session: StudySession, row: Row[Any]) -> str | None:
    """Gives a trial that is about to run what is known of one like it.

    Afterwards the trial has ended, is paused, or still runs with some steps fewer to train.

    Returns:
        Why it has to wait, where one like it trains now; else None.
    """
    if row.cache_key is None:
        return None
    if session.record.config.data.version is not None:
        _lock(session, row.cache_key)  # a study beside this one may be about to start the same
    sources = list(_sources(session, row))
    for source in sources:
        if source.covers(row.until_step) and _replay(session, row, source, row.until_step):
            return None
    if other := _trained_now(session, row):
        return f"{other} trains the same now"
    known = session.view.trials[row.number].checkpoint_step
    newest = {
        source: max(_saved(session, source, at_most=row.until_step), default=0)
        for source in sources
    }
    for source in sorted(sources, key=lambda source: -newest[source]):
        if newest[source] > known and _replay(session, row, source, newest[source], is_more=True):
            break
    return None


def held_up(session: StudySession, numbers: Sequence[int]) -> set[int]:
    """Those of the trials that wait for one like them, which trains now."""
    mine = trials.alias()
    is_training = exists().where(
        trials.c.cache_key == mine.c.cache_key,
        studies.c.id == trials.c.study_id,
        shares_with(session.record),
        _is_another(mine.c.study_id, mine.c.number),
        *_is_trained(),
    )
    found = session.connection.execute(
        select(mine.c.number).where(
            mine.c.study_id == session.record.id, mine.c.number.in_(numbers), is_training
        )
    )
    return set(found.scalars())


def restore_from(session: StudySession, number: int, step: int) -> str | None:
    """Where in the store a trial's checkpoint of a step is, if it was served from another one."""
    if step == 0:
        return None
    uri = session.connection.execute(
        select(checkpoints.c.uri)
        .join(segments, segments.c.id == checkpoints.c.segment_id)
        .where(
            checkpoints.c.study_id == session.record.id,
            checkpoints.c.trial == number,
            checkpoints.c.step == step,
            segments.c.runner == RUNNER,
        )
    ).scalar_one_or_none()
    return uri and uri.removeprefix(store_prefix(session.record)).rpartition("/")[0]


def _lock(session: StudySession, key: str) -> None:
    """Until the transaction ends nobody else looks whether this key is trained."""
    session.connection.execute(
        text("SELECT pg_advisory_xact_lock(:key)"),
        {"key": int(key[:16], 16) - (1 << 63)},
    )


def _is_another(study_id: Any, number: Any) -> ColumnElement[bool]:
    return tuple_(trials.c.study_id, trials.c.number) != tuple_(study_id, number)


def _is_trained() -> list[ColumnElement[bool]]:
    """A trial has a segment that is alive: its lease is renewed."""
    return [
        segments.c.study_id == trials.c.study_id,
        segments.c.trial == trials.c.number,
        segments.c.outcome.is_(None),
        leases.c.segment_id == segments.c.id,
        leases.c.expires_at > func.now(),
    ]


def _sources(session: StudySession, row: Row[Any]) -> Iterator[Source]:
    """Trials like this one that have more than it: first those of this study that trained."""
    is_whole = exists().where(
        segments.c.study_id == trials.c.study_id,
        segments.c.trial == trials.c.number,
        segments.c.outcome == Outcome.COMPLETED.value,
        segments.c.until_step.is_(None),
    )
    found = session.connection.execute(
        select(
            trials.c.study_id,
            trials.c.number,
            trials.c.step,
            studies.c.key,
            is_whole.label("is_whole"),
        )
        .join(studies, studies.c.id == trials.c.study_id)
        .where(
            trials.c.cache_key == row.cache_key,
            shares_with(session.record),
            _is_another(session.record.id, row.number),
            or_(trials.c.step > row.step, is_whole),
            trials.c.step > 0,
        )
        .order_by(
            (trials.c.study_id != session.record.id),
            trials.c.served.is_not(None),
            trials.c.step.desc(),
            trials.c.study_id,
            trials.c.number,
        )
        .limit(MOST_SOURCES)
    )
    for item in found:
        yield Source(item.study_id, item.key, item.number, item.step, item.is_whole)


def _trained_now(session: StudySession, row: Row[Any]) -> str | None:
    found = session.connection.execute(
        select(trials.c.number, studies.c.key)
        .join(studies, studies.c.id == trials.c.study_id)
        .where(
            trials.c.cache_key == row.cache_key,
            shares_with(session.record),
            _is_another(session.record.id, row.number),
            exists().where(*_is_trained()),
        )
        .limit(1)
    ).one_or_none()
    return found and f"trial {found.number} of {found.key}"


def _saved(session: StudySession, source: Source, at_most: int | None) -> dict[int, Checkpoint]:
    """The checkpoints that a source still has, in this study's store, by step."""
    table = checkpoints
    rows = session.connection.execute(
        select(table.c.step, table.c.uri, table.c.files, table.c.bytes, table.c.digest).where(
            table.c.study_id == source.study_id,
            table.c.trial == source.trial,
            table.c.uri.startswith(store_prefix(session.record), autoescape=True),
            true() if at_most is None else table.c.step <= at_most,
        )
    )
    return {row.step: Checkpoint(**row._mapping) for row in rows}


def _replay(
    session: StudySession,
    row: Row[Any],
    source: Source,
    until_step: int | None,
    *,
    is_more: bool = False,
) -> bool:
    """Replays a source's reports into a trial, as a segment of its own that nobody trained.

    Args:
        session: The study.
        row: The trial.
        source: The trial like it.
        until_step: The last step to replay.
        is_more: There is more to train after that: the trial goes on running.

    Returns:
        False where the reports lack a metric of this study, so that nothing was replayed.
    """
    number: int = row.number
    history = _reports(session, source, after=row.step, until_step=until_step)
    names = {metric.name for metric in session.record.config.objectives}
    if any(names - set(report.metrics) for report in history):
        return False
    segment = _start(session, row, until_step)
    decision = None
    for batch in _batches(session, history):
        study_transitions.take_reports(session, number, segment.id, batch)
        decision = study_transitions.decide(session, segment, has_news=True)
        if decision.action.outcome is not None:
            break
    step = session.view.trials[number].step
    _borrow(session, number, segment.id, source, step)
    served = Served(study=source.study, trial=source.trial, step=step)
    session.update_trial(number, served=served.to_dict())
    note = f"from the cache: {source}"
    logger.info("trial %d is served up to step %d %s", number, step, note)
    if decision is not None and (outcome := decision.action.outcome) is not None:
        reason = f"{decision.reason} ({note})"
        result = SegmentResult(
            outcome=outcome, step=step, reason=reason, cause=Cause.SERVED_FROM_CACHE
        )
        study_transitions.end_segment(session, segment, result)
    elif is_more:
        result = SegmentResult(
            outcome=Outcome.COMPLETED, step=step, reason=note, cause=Cause.SERVED_FROM_CACHE
        )
        session.end_segment(segment.id, number, result)
    else:
        last = max(step, until_step or 0)
        result = SegmentResult(
            outcome=Outcome.COMPLETED,
            step=last,
            reason=f"{last} steps {note}",
            cause=Cause.SERVED_FROM_CACHE,
        )
        study_transitions.end_segment(session, segment, result)
    return True


def _start(session: StudySession, row: Row[Any], until_step: int | None) -> Row[Any]:
    segment_id = uuid.uuid4().hex
    session.start_segment(
        segment_id,
        row.number,
        width=Fraction(1),
        key=RUNNER,
        from_step=row.step,
        until_step=until_step,
        runner=RUNNER,
    )
    segment = session.segment(segment_id)
    if segment is None:
        raise LookupError(f"segment {segment_id} was just started")
    return segment


def _reports(
    session: StudySession, source: Source, *, after: int, until_step: int | None
) -> list[Report]:
    rows = session.connection.execute(
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


def _batches(session: StudySession, history: Sequence[Report]) -> Iterator[Sequence[Report]]:
    """One report at a time, unless nobody judges them before the last."""
    config = session.record.config
    if config.reproducible or (config.scheduler.name == "default" and config.goal.target is None):
        yield from [history] if history else []
    else:
        yield from ([report] for report in history)


def _borrow(
    session: StudySession, number: int, segment_id: str, source: Source, step: int
) -> None:
    """The newest and the best checkpoint of a source count as the trial's own."""
    saved = _saved(session, source, at_most=step)
    if not saved:
        return
    trial = session.view.trials[number]
    best = max(
        (seen for seen in trial.observations if seen.step in saved),
        key=lambda seen: seen.score,
        default=None,
    )
    for one in sorted({max(saved), best.step if best else max(saved)}):
        session.add_checkpoint(number, segment_id, saved[one])
