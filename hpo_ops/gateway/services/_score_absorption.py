"""Compares the trial results that tasks passed through XCom with the ledger.

A task passes its trial's result (here called score) to later tasks through XCom, also if the
gateway could not be reached. A result that the ledger lacks is recorded (absorbed); a result that
differs from the ledger is reported.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hpo_ops.client import AbsorbedScores, TrialResult
from hpo_ops.core import TrialState
from hpo_ops.core.score_reconciliation import Match, Score, compare_scores, disagreement
from hpo_ops.gateway.services import _study_transitions
from hpo_ops.ledger import EventKind, StudyTransaction
from hpo_ops.ledger.rows import SegmentRow
from hpo_ops.protocol import Cause, Outcome, ProtocolError, Report, SegmentResult

logger = logging.getLogger(__name__)

_OUTCOMES = {
    TrialState.COMPLETED: Outcome.COMPLETED,
    TrialState.PAUSED: Outcome.PAUSED,
    TrialState.PRUNED: Outcome.STOPPED,
    TrialState.FAILED: Outcome.FAILED,
}


def absorb(session: StudyTransaction, scores: Sequence[TrialResult]) -> AbsorbedScores:
    """Compares scores received through XCom with the ledger; records scores the ledger lacks.

    Scores are not verified beyond the token of the DAG run that sent them. If a score and the
    ledger differ, the ledger keeps its result, and the difference is recorded as an event of the
    study.

    Returns:
        The trials whose scores were recorded, and a sentence for each difference.

    Raises:
        ValueError: A score names a trial that does not exist, and its state is not pruned.
    """
    found = AbsorbedScores()
    for score in scores:
        if not 0 <= score.trial < len(session.view.trials):
            if score.state is TrialState.PRUNED:
                continue  # its study was over before the trial began: the ledger has no such trial
            raise ValueError(f"study {session.record.key} has no trial {score.trial}")
        known = session.trials.get(score.trial)
        mine = Score(TrialState(known.state), known.value)
        said = Score(score.state, score.value, is_provisional=score.unconfirmed is not None)
        match compare_scores(mine, said):
            case Match.MISSING:
                _take(session, score, found)
            case Match.DIFFERENT:
                name = session.view.name_of(score.trial)
                _note(session, score, disagreement(name, ledger=mine, xcom=said), found)
    return found


def _note(session: StudyTransaction, score: TrialResult, text: str, found: AbsorbedScores) -> None:
    logger.warning("study %s: %s", session.record.key, text)
    session.history.append(EventKind.SCORES_DIFFER, score.trial, {"reason": text})
    found.disagreements.append(text)


def _take(session: StudyTransaction, score: TrialResult, found: AbsorbedScores) -> None:
    """Ends a trial in the ledger with the state, reports and reason of its score from XCom.

    The trial, or the sentence why its score cannot be used, is added to `found`.
    """
    number, end = score.trial, score.unconfirmed
    segment = session.segments.find_open(number)
    if segment is None and end is not None:
        segment = session.segments.find(end.segment)
    if segment is not None and segment.trial == number:
        try:
            _take_segment(session, segment, score)
        except ProtocolError as error:
            name = session.view.name_of(number)
            _note(session, score, f"{name}: its score by XCom cannot be used: {error}", found)
            return
    if session.view.trials[number].state is TrialState.RUNNING:
        session.trials.move(number, score.state, score.reason)
    session.history.append(
        EventKind.SCORE_ABSORBED, number, {"reason": score.reason, "value": score.value}
    )
    logger.info(
        "%s: its end came by XCom: %s", session.view.name_of(number), score.reason or score.state
    )
    found.absorbed.append(number)


def _take_segment(session: StudyTransaction, segment: SegmentRow, score: TrialResult) -> None:
    end = score.unconfirmed
    reports = end.reports if end is not None else _last_report(session, score)
    _study_transitions.take_reports(session, score.trial, segment.id, reports)
    if not segment.is_open:
        return
    if reports:
        _study_transitions.decide(session, segment, has_news=True)
    result = end.result if end is not None else _result_of(score)
    _study_transitions.end_segment(session, segment, result)


def _last_report(session: StudyTransaction, score: TrialResult) -> list[Report]:
    """Returns the best value of a trial's score from XCom as a report at the best step.

    Returns:
        A list of one report; an empty list if the score has no value or the study has several
        objectives.
    """
    objectives = session.record.config.objectives
    if score.value is None or score.best_step is None or len(objectives) > 1:
        return []
    return [Report(step=score.best_step, metrics={objectives[0].name: score.value})]


def _result_of(score: TrialResult) -> SegmentResult:
    return SegmentResult(
        outcome=_OUTCOMES[score.state], step=score.step, reason=score.reason, cause=Cause.UNKNOWN
    )
