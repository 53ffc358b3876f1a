"""Studies in the ledger: one lock a study, a view that follows, a history that only grows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotYetError
from threading import Barrier, Event
from typing import Any

import pytest
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.exc import DBAPIError

from hpo_ops.config import parse_study
from hpo_ops.core import Action, Decision, TrialState
from hpo_ops.ledger import EventKind, Ledger, StudyIdentity, UnknownStudyError
from hpo_ops.ledger._schema import decisions, events, metadata, reports, trials
from hpo_ops.protocol import Checkpoint, Report
from tests.ledger.conftest import start
from tests.studies import study_data


def rows_of(ledger: Ledger, table: Any, study_id: int) -> list[Any]:
    with ledger.engine.connect() as connection:
        return list(connection.execute(select(table).where(table.c.study_id == study_id)))


def everything(ledger: Ledger) -> dict[str, list[Any]]:
    with ledger.engine.connect() as connection:
        return {
            table.name: list(connection.execute(select(table))) for table in metadata.sorted_tables
        }


# -- studies ---------------------------------------------------------------------------------


def test_a_study_is_entered_once_for_a_run(ledger: Ledger) -> None:
    first = start(ledger)
    again = start(ledger)
    assert again.id == first.id
    kinds = [row.kind for row in rows_of(ledger, events, first.id)]
    assert kinds == [EventKind.STUDY_STARTED]
    other = start(ledger, run_id="run-2")
    assert other.id != first.id
    assert [record.id for record in ledger.named("small")] == [other.id, first.id]
    assert [record.id for record in ledger.named("small", run_id="run-1")] == [first.id]
    assert ledger.find_run(StudyIdentity("small", "run-1")).id == first.id
    assert [record.id for record in ledger.recent()] == [other.id, first.id]


def test_a_study_entered_by_many_at_once_is_one_study(ledger: Ledger) -> None:
    with ThreadPoolExecutor(6) as pool:
        ids = {record.id for record in pool.map(lambda _: start(ledger), range(6))}
    assert len(ids) == 1


def test_a_study_comes_back_as_it_was_written(ledger: Ledger) -> None:
    space = {"zeta": [1, 2], "a": {"float": [0, 1], "when": {"zeta": 1}}, "mid": {"int": [1, 3]}}
    config = parse_study(study_data(space=space), source="test")
    assert ledger.start_study(config, identity=StudyIdentity("d", "r")).config == config


def test_a_space_keeps_its_order_in_the_ledger(ledger: Ledger) -> None:
    space = {"zeta": [1, 2], "a": {"float": [0, 1]}, "mid": {"int": [1, 3]}}
    config = parse_study(study_data(space=space), source="test")
    record = ledger.start_study(config, identity=StudyIdentity("d", "r"))
    assert list(record.config.space) == ["zeta", "a", "mid"]


def test_what_is_not_there_is_named(ledger: Ledger) -> None:
    start(ledger)
    assert list(ledger.named("none")) == []
    with pytest.raises(UnknownStudyError, match="the run run-9 of small has no study"):
        ledger.find_run(StudyIdentity("small", "run-9"))
    with pytest.raises(UnknownStudyError, match="999"):
        ledger.get(999)
    with pytest.raises(UnknownStudyError, match="999"), ledger.study(999):
        pass
    with pytest.raises(UnknownStudyError, match="there is no segment x"):
        ledger.study_of_segment("x")


@pytest.mark.parametrize("run_id", ["a b", "a/b", "manual__2026-01-01T00:00:00+00:00", "../x"])
def test_a_key_is_fit_for_a_path_and_apart_from_others(ledger: Ledger, run_id: str) -> None:
    record = start(ledger, run_id=run_id)
    name, _, run = record.key.partition("/")
    assert name == "small"
    assert set("/ :+").isdisjoint(run)
    twin = start(ledger, run_id=run.rpartition("-")[0])
    assert twin.key != record.key


# -- one transaction on a study --------------------------------------------------------------


def test_two_studies_never_wait_for_each_other(ledger: Ledger) -> None:
    one, two = start(ledger, "one").id, start(ledger, "two").id

    def use_the_other() -> int:
        with ledger.study(two) as session:
            number = session.add_trial()
            session.trials.move(number, TrialState.RUNNING, "its turn")
        with ledger.sampler_lock(two):
            return number

    with ledger.study(one) as session, ledger.sampler_lock(one):
        session.add_trial()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(use_the_other).result(timeout=20) == 0


def test_one_study_is_used_by_one_at_a_time(ledger: Ledger) -> None:
    study_id = start(ledger).id

    def add() -> int:
        with ledger.study(study_id) as session:
            return session.add_trial()

    with ThreadPoolExecutor(1) as pool:
        with ledger.study(study_id) as session:
            assert session.add_trial() == 0
            second = pool.submit(add)
            with pytest.raises(NotYetError):
                second.result(timeout=0.2)
        assert second.result(timeout=20) == 1


def test_trials_reserved_by_many_at_once_have_their_own_numbers(ledger: Ledger) -> None:
    study_id = start(ledger).id
    barrier = Barrier(6)

    def add(_: int) -> list[int]:
        barrier.wait()
        numbers = []
        for _ in range(5):
            with ledger.study(study_id) as session:
                numbers.append(session.add_trial())
        return numbers

    with ThreadPoolExecutor(6) as pool:
        taken = [number for numbers in pool.map(add, range(6)) for number in numbers]
    assert sorted(taken) == list(range(30))


def test_asks_of_one_study_come_one_after_the_other(ledger: Ledger) -> None:
    study_id = start(ledger).id
    asking = []

    def ask(number: int) -> None:
        with ledger.sampler_lock(study_id):
            asking.append(("in", number))
            with ledger.study(study_id) as session:
                session.add_trial()
            asking.append(("out", number))

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(ask, range(5)))
    assert [word for word, _ in asking] == ["in", "out"] * 5
    for first, second in zip(asking[::2], asking[1::2], strict=True):
        assert first[1] == second[1]


def test_many_who_wait_to_ask_leave_connections_to_the_one_who_asks(database: str) -> None:
    Ledger.open(database).engine.dispose()
    engine = create_engine(database, pool_size=2, max_overflow=0, pool_timeout=5)
    ledger = Ledger(engine)
    study_id = start(ledger).id

    def ask(_: int) -> int:
        with ledger.sampler_lock(study_id), ledger.study(study_id) as session:
            return session.add_trial()

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(ask, range(6))) == list(range(6))
    engine.dispose()


def test_an_ask_of_another_process_is_waited_for(ledger: Ledger, database: str) -> None:
    study_id = start(ledger).id
    other = Ledger(create_engine(database))  # what another process has
    entered = Event()

    def ask() -> None:
        with ledger.sampler_lock(study_id):
            entered.set()

    with ThreadPoolExecutor(1) as pool:
        with other.sampler_lock(study_id):
            asked = pool.submit(ask)
            assert not entered.wait(0.2)
        assert entered.wait(20)
        wait([asked])
    other.engine.dispose()


class OnPurposeError(Exception):
    pass


@pytest.mark.parametrize("is_known", [True, False], ids=["view kept", "view fresh"])
def test_a_transaction_that_is_rolled_back_leaves_nothing(ledger: Ledger, is_known: bool) -> None:
    study_id = start(ledger).id
    with ledger.study(study_id) as session:
        session.add_trial()
        session.trials.move(0, TrialState.RUNNING, "its turn")
        session.reports.add(0, "s", [Report(step=1, metrics={"accuracy": 0.5})])
        assert len(session.view.trials) == 1
    if not is_known:
        ledger._views.clear()
    before = everything(ledger)

    def break_off() -> None:
        with ledger.study(study_id) as session:
            session.add_trial()
            session.reports.add(0, "s", [Report(step=2, metrics={"accuracy": 0.9})])
            session.trials.move(0, TrialState.COMPLETED, "done")
            session.stop("enough")
            assert len(session.view.trials) == 2
            raise OnPurposeError

    with pytest.raises(OnPurposeError):
        break_off()

    assert everything(ledger) == before
    with ledger.study(study_id) as session:
        (trial,) = session.view.trials
        assert trial.state is TrialState.RUNNING
        assert trial.step == 1
        assert session.view.best is not None
        assert session.view.best.best_score == 0.5
        assert not session.record.reason


def test_a_connection_that_breaks_leaves_the_study_usable(ledger: Ledger) -> None:
    study_id = start(ledger).id

    def lose_the_connection() -> None:
        with ledger.study(study_id) as session:
            session.add_trial()
            pid = session.connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            with ledger.engine.connect() as killer:
                killer.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
            session.add_trial()

    with pytest.raises(DBAPIError):
        lose_the_connection()
    with ledger.study(study_id) as session:
        assert session.view.trials == []
        assert session.add_trial() == 0


def test_the_view_of_two_processes_is_the_same(ledger: Ledger, database: str) -> None:
    study_id = start(ledger).id
    other = Ledger(create_engine(database))
    for turn in range(6):
        here, there = (ledger, other) if turn % 2 else (other, ledger)
        with here.study(study_id) as session:
            number = session.add_trial()
            session.trials.propose(number, {"lr": turn / 10})
            session.trials.move(number, TrialState.RUNNING, "its turn")
            session.reports.add(number, "s", [Report(step=1, metrics={"accuracy": turn / 10})])
            saved = Checkpoint(step=1, uri="s3://x", files=1, bytes=1)
            session.checkpoints.add(number, "s", saved)
        with there.study(study_id) as session:
            session.trials.move(number, TrialState.COMPLETED, "done")
    with ledger.study(study_id) as session:
        mine = session.view
    with other.study(study_id) as session:
        theirs = session.view
    assert mine.trials == theirs.trials
    assert [trial.checkpoint_step for trial in mine.trials] == [1] * 6
    assert mine.best is not None
    assert theirs.best is not None
    assert mine.best.number == theirs.best.number == 5
    other.engine.dispose()


# -- history ---------------------------------------------------------------------------------


def test_history_is_in_order_and_only_grows(ledger: Ledger) -> None:
    study_id = start(ledger).id
    seen: list[Any] = []
    for turn in range(4):
        with ledger.study(study_id) as session:
            number = session.add_trial()
            session.trials.propose(number, {"lr": 0.1})
            session.trials.move(number, TrialState.RUNNING, "its turn")
            session.reports.add(number, "s", [Report(step=1, metrics={"accuracy": 0.1})])
            session.trials.move(number, TrialState.PRUNED, f"turn {turn}")
        rows = sorted(rows_of(ledger, events, study_id), key=lambda row: row.id)
        assert rows[: len(seen)] == seen  # what was there is as it was
        assert len(rows) > len(seen)
        seen = rows
    assert [row.at for row in seen] == sorted(row.at for row in seen)
    added = [row.trial for row in seen if row.kind == EventKind.TRIAL_ADDED]
    assert added == [0, 1, 2, 3]


def test_reports_and_events_share_one_order(ledger: Ledger) -> None:
    study_id = start(ledger).id
    with ledger.study(study_id) as session:
        session.add_trial()
        session.trials.move(0, TrialState.RUNNING, "its turn")
        session.reports.add(0, "s", [Report(step=1, metrics={"accuracy": 0.1})])
        session.trials.move(0, TrialState.COMPLETED, "done")
    (report,) = rows_of(ledger, reports, study_id)
    moved = [
        row.id for row in rows_of(ledger, events, study_id) if row.kind == EventKind.TRIAL_MOVED
    ]
    assert moved[0] < report.id < moved[1]


def test_a_step_that_comes_twice_stays_as_it_was(ledger: Ledger) -> None:
    study_id = start(ledger).id
    with ledger.study(study_id) as session:
        session.add_trial()
        for value in (0.5, 0.9):
            session.reports.add(0, "s", [Report(step=1, metrics={"accuracy": value})])
        assert session.reports.curve(0) == [(1, 0.5)]
        assert session.view.trials[0].best_score == 0.5
        checkpoint = Checkpoint(step=1, uri="s3://x", files=1, bytes=1)
        session.checkpoints.add(0, "s", checkpoint)
        session.checkpoints.add(0, "s", checkpoint)
    kinds = [row.kind for row in rows_of(ledger, events, study_id)]
    assert kinds.count(EventKind.CHECKPOINT) == 1


def test_a_decision_that_is_repeated_is_kept_once(ledger: Ledger) -> None:
    study_id = start(ledger).id
    go_on, stop = Decision(Action.CONTINUE, "good"), Decision(Action.STOP, "rank 9 of 9")
    with ledger.study(study_id) as session:
        session.add_trial()
        for step, decision in enumerate([go_on, go_on, stop, stop], start=1):
            session.trials.record_decision(0, step, decision)
    kept = [(row.step, row.action, row.reason) for row in rows_of(ledger, decisions, study_id)]
    assert kept == [(1, "continue", "good"), (3, "stop", "rank 9 of 9")]


def test_a_study_that_is_removed_takes_everything_of_it_along(ledger: Ledger) -> None:
    kept, removed = start(ledger, "kept").id, start(ledger, "removed").id
    for study_id in (kept, removed):
        with ledger.study(study_id) as session:
            session.add_trial()
            session.reports.add(0, "s", [Report(step=1, metrics={"accuracy": 0.1})])
    with ledger.engine.begin() as connection:
        connection.execute(text("DELETE FROM ledger.studies WHERE id = :id"), {"id": removed})
        left = connection.execute(select(trials.c.study_id, func.count()).group_by("study_id"))
        assert left.all() == [(kept, 1)]


def test_seconds_of_a_study_go_on(ledger: Ledger) -> None:
    study_id = start(ledger).id
    nows: list[float] = []
    for _ in range(2):
        with ledger.study(study_id) as session:
            nows.append(session.now)
    assert 0 <= nows[0] < nows[1] < 60


def waits(ledger: Ledger) -> Iterator[int]:
    """Sessions of the database that wait for a lock, again and again."""
    while True:
        with ledger.engine.connect() as connection:
            query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            yield connection.execute(text(query)).scalar_one()


def test_a_waiting_session_sees_what_the_one_before_it_did(ledger: Ledger) -> None:
    study_id = start(ledger).id

    def count() -> int:
        with ledger.study(study_id) as session:
            return len(session.view.trials)

    with ThreadPoolExecutor(1) as pool:
        with ledger.study(study_id) as session:
            counted = pool.submit(count)
            for waiting in waits(ledger):
                if waiting:
                    break
                time.sleep(0.01)
            session.add_trial()
        assert counted.result(timeout=20) == 1
