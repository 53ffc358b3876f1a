"""The score cache: serves the reports of an identical earlier trial instead of training again.

A trial is served when it is about to start a segment (one uninterrupted execution of a trial).
The cache looks for a source: an earlier trial with the same cache key. The reports of the source
are replayed into the trial in the order of their steps, and the scheduler decides on them as if
the trial had been trained. If the source has fewer steps than the trial needs, the trial resumes
from a checkpoint of the source. While an identical trial is being trained, the trial waits.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from hpo_ops.config.runner_registry import find_runner
from hpo_ops.core.cache_keys import cache_key, canonical_params, seed_of_params
from hpo_ops.gateway.services import _study_transitions
from hpo_ops.gateway.services._saved_checkpoints import store_prefix
from hpo_ops.ledger import StudyRecord, StudyTransaction
from hpo_ops.ledger.cached_trials import CacheSource
from hpo_ops.ledger.rows import SegmentRow, ServedFrom, TrialIdentity, TrialRow
from hpo_ops.protocol import Cause, Checkpoint, Outcome, ParamValue, Report, SegmentResult

logger = logging.getLogger(__name__)

RUNNER = "cache"
"""The name recorded as the runner of a segment that was served by the cache, not trained."""


def identity(
    record: StudyRecord, params: Mapping[str, ParamValue], *, fold: int | None = None
) -> TrialIdentity:
    """Returns the seed and the cache key of a trial with the given parameters.

    The cache key is None if the study does not use the cache (`cache: false`).

    Args:
        record: The study.
        params: The trial's hyperparameters.
        fold: The fold in a study with folds, or None for that study's retraining on all data.
            Ignored in a study without folds.
    """
    config = record.config
    same = canonical_params(config.space, params)
    seed = config.trial_seed
    if seed is None:
        seed = seed_of_params(config.seed, same)
    if not config.cache:
        return TrialIdentity(seed=config.trial_seed)
    here = f"only in {record.key}"  # unknown code or data is never identical across studies
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
    return TrialIdentity(seed=seed, cache_key=key)


def serve(session: StudyTransaction, row: TrialRow) -> str | None:
    """Replays the reports of an identical trial into a trial that is about to start a segment.

    Afterwards the trial has finished, is paused, or is still RUNNING with fewer steps to train. If
    no identical trial exists, nothing changes.

    Returns:
        Why the trial has to wait, if an identical trial is being trained; otherwise None.
    """
    if row.cache_key is None:
        return None
    if session.record.config.data.version is not None:
        session.cached.lock(row.cache_key)  # another study may be starting an identical trial
    sources = session.cached.sources(row)
    for source in sources:
        if source.covers(row.until_step) and _replay(session, row, source, row.until_step):
            return None
    if other := session.cached.find_in_training(row):
        return f"{other} is identical and is being trained: waiting for its reports"
    known = session.view.trials[row.number].checkpoint_step
    newest = {
        source: max(_checkpoints(session, source, at_most=row.until_step), default=0)
        for source in sources
    }
    for source in sorted(sources, key=lambda source: -newest[source]):
        if newest[source] > known and _replay(session, row, source, newest[source], is_more=True):
            break
    return None


def restore_from(session: StudyTransaction, number: int, step: int) -> str | None:
    """Returns the store folder of a trial's checkpoint if the score cache provided the checkpoint.

    Args:
        session: The study's open transaction.
        number: The trial's number.
        step: The checkpoint's step.

    Returns:
        The folder with the checkpoints of the source (the identical trial), or None if the trial
        saved the checkpoint itself or `step` is 0.
    """
    if step == 0:
        return None
    uri = session.checkpoints.find_uri(number, step, runner=RUNNER)
    return uri and uri.removeprefix(store_prefix(session.record)).rpartition("/")[0]


def _replay(
    session: StudyTransaction,
    row: TrialRow,
    source: CacheSource,
    until_step: int | None,
    *,
    is_more: bool = False,
) -> bool:
    """Replays the reports of an identical trial into a trial, as a separate segment of the trial.

    Args:
        session: The study's open transaction.
        row: The trial.
        source: The identical trial.
        until_step: The last step to replay; None replays all steps.
        is_more: Whether the trial has to be trained further after `until_step` and therefore
            stays RUNNING.

    Returns:
        Whether the reports were replayed: False if a report lacks a metric of this study.
    """
    number = row.number
    history = session.cached.reports_of(source, after=row.step, until_step=until_step)
    names = {metric.name for metric in session.record.config.objectives}
    if any(names - set(report.metrics) for report in history):
        return False
    segment = _start(session, row, until_step)
    decision = None
    for batch in _batches(session, history):
        _study_transitions.take_reports(session, number, segment.id, batch)
        decision = _study_transitions.decide(session, segment, has_news=True)
        if decision.action.outcome is not None:
            break
    step = session.view.trials[number].step
    _borrow(session, number, segment.id, source, step)
    served = ServedFrom(study=source.study, trial=source.trial, step=step)
    session.trials.record_served(number, served)
    note = f"from the cache: {source}"
    logger.info("trial %d is served up to step %d %s", number, step, note)
    if decision is not None and (outcome := decision.action.outcome) is not None:
        reason = f"{decision.reason} ({note})"
        result = _result(outcome, step, reason)
        _study_transitions.end_segment(session, segment, result)
    elif is_more:
        result = _result(Outcome.COMPLETED, step, note)
        session.segments.end(segment.id, number, result)
    else:
        last = max(step, until_step or 0)
        result = _result(Outcome.COMPLETED, last, f"{last} steps {note}")
        _study_transitions.end_segment(session, segment, result)
    return True


def _result(outcome: Outcome, step: int, reason: str) -> SegmentResult:
    cause = Cause.SERVED_FROM_CACHE
    return SegmentResult(outcome=outcome, step=step, reason=reason, cause=cause)


def _start(session: StudyTransaction, row: TrialRow, until_step: int | None) -> SegmentRow:
    segment_id = uuid.uuid4().hex
    session.segments.start(
        segment_id,
        row.number,
        width=Fraction(1),
        key=RUNNER,
        from_step=row.step,
        until_step=until_step,
        runner=RUNNER,
    )
    segment = session.segments.find(segment_id)
    if segment is None:
        raise LookupError(f"segment {segment_id} was just started")
    return segment


def _batches(session: StudyTransaction, history: Sequence[Report]) -> Iterator[Sequence[Report]]:
    """Splits replayed reports into batches; the scheduler decides on the trial after each batch.

    Each batch has one report. If no decision is needed before the last report, one batch has all
    reports.
    """
    config = session.record.config
    if config.reproducible or (config.scheduler.name == "default" and config.goal.target is None):
        yield from [history] if history else []
    else:
        yield from ([report] for report in history)


def _borrow(
    session: StudyTransaction, number: int, segment_id: str, source: CacheSource, step: int
) -> None:
    """Records the newest and the best checkpoint of an identical trial for the served trial too.

    Only checkpoints up to the given step are considered. No files are copied.
    """
    saved = _checkpoints(session, source, at_most=step)
    if not saved:
        return
    trial = session.view.trials[number]
    best = max(
        (seen for seen in trial.observations if seen.step in saved),
        key=lambda seen: seen.score,
        default=None,
    )
    for one in sorted({max(saved), best.step if best else max(saved)}):
        session.checkpoints.add(number, segment_id, saved[one])


def _checkpoints(
    session: StudyTransaction, source: CacheSource, *, at_most: int | None
) -> dict[int, Checkpoint]:
    """Returns the checkpoints of an identical trial that are in this study's store, by step.

    Args:
        session: The study's open transaction.
        source: The identical trial.
        at_most: The largest step of a returned checkpoint; None for no limit.
    """
    prefix = store_prefix(session.record)
    return session.cached.checkpoints_of(source, at_most=at_most, uri_prefix=prefix)
