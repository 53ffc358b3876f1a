"""Segments in the ledger: typed rows, and what is counted by their causes."""

from __future__ import annotations

from hpo_ops.core import Decision
from hpo_ops.ledger import Ledger
from hpo_ops.ledger.rows import Mishaps
from hpo_ops.protocol import Action, Cause, Outcome, Provenance, SegmentResult
from tests.ledger.conftest import start


def test_a_segment_is_read_with_its_enums(ledger: Ledger) -> None:
    study_id = start(ledger).id
    result = SegmentResult(
        outcome=Outcome.PAUSED, step=3, reason="rank 4", cause=Cause.REQUESTED, exit_code=0
    )
    with ledger.study(study_id) as session:
        number = session.add_trial()
        session.segments.start(
            "s",
            number,
            key="attempt 1",
            from_step=0,
            until_step=9,
            runner="local",
            provenance=Provenance(python="3.11"),
        )
        session.segments.request("s", Decision(Action.PAUSE, "rank 4"))
        opened = session.segments.find_open(number)
        session.segments.end("s", number, result)
        ended = session.segments.find("s")
    assert opened is not None
    assert ended is not None
    assert (opened.is_open, opened.result, opened.outcome) == (True, None, None)
    assert (opened.requested_action, opened.requested_reason) == (Action.PAUSE, "rank 4")
    assert opened.provenance == Provenance(python="3.11")
    assert (ended.is_open, ended.result) == (False, result)


def test_out_of_memory_is_counted_by_its_cause_whatever_the_reason_says(ledger: Ledger) -> None:
    ends = [
        (Outcome.PREEMPTED, Cause.EVICTED, "out of memory, it says"),
        (Outcome.PREEMPTED, Cause.OUT_OF_MEMORY, "the container needed more than 2 GiB"),
        (Outcome.FAILED, Cause.OUT_OF_MEMORY, "the container needed more than 4 GiB"),
        (Outcome.FAILED, Cause.TRAINING_ERROR, "exit code 1"),
        (Outcome.PREEMPTED, Cause.UNKNOWN, ""),
    ]
    with ledger.study(start(ledger).id) as session:
        number = session.add_trial()
        assert session.segments.count_mishaps(number) == Mishaps()
        for turn, (outcome, cause, reason) in enumerate(ends):
            name = f"s{turn}"
            session.segments.start(
                name, number, key=name, from_step=0, until_step=1, runner="kubernetes"
            )
            result = SegmentResult(outcome=outcome, cause=cause, reason=reason)
            session.segments.end(name, number, result)
        assert session.segments.count_mishaps(number) == Mishaps(preemptions=2, out_of_memory=2)
