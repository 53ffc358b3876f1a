from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.agent import Agent
from hpo_ops.agent._agent import UNDELIVERED
from hpo_ops.agent._outbox import CLOSED, REJECTED
from hpo_ops.checkpoints import BadCheckpointError
from hpo_ops.client import GatewayRefusedError, GatewayUnreachableError
from hpo_ops.protocol import (
    MARKER,
    Action,
    Assignment,
    Cause,
    Checkpoint,
    Control,
    Folder,
    Outcome,
    Workspace,
    read_control,
)
from tests.gateways import FakeGateway

WAIT_SECONDS = 30.0


class HandClock:
    """A clock that a test moves."""

    now = 0.0

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self) -> float:
        return self.now


class Store:
    """Uploads into a list; holds every upload until it is let go."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.steps: list[int] = []
        self.started = threading.Semaphore(0)
        self.gate = threading.Event()
        self.errors: list[Exception] = []
        if is_open:
            self.gate.set()

    def __call__(self, step: int, folder: Folder) -> Checkpoint:
        self.started.release()
        self.gate.wait(WAIT_SECONDS)
        if self.errors:
            raise self.errors.pop(0)
        with folder.file("model") as model:
            assert model.read() == str(step).encode()
        self.steps.append(step)
        return Checkpoint(step=step, uri=f"memory:///{step}", files=1, bytes=1)


class Bench:
    """An agent, and the workspace that a training would write to."""

    def __init__(self, root: Path, **options: object) -> None:
        self.clock = HandClock()
        self.gateway = FakeGateway()
        self.workspace = Workspace(root / "hpo")
        self.assignment = Assignment(
            study="s", trial=0, segment="a", params={}, metrics=["accuracy"], until_step=10**6
        )
        self.workspace.prepare(self.assignment)
        arguments: dict[str, object] = {"clock": self.clock, "wait": self.clock.wait}
        self.agent = Agent(
            self.workspace,
            self.assignment,
            self.gateway,
            **(arguments | options),  # type: ignore[arg-type]  # options of one test each
        )

    def report(self, *steps: int) -> None:
        self.write(*(f'{{"step": {step}, "metrics": {{"accuracy": 0.5}}}}' for step in steps))

    def write(self, *lines: str) -> None:
        with self.workspace.reports.open("a") as stream:
            stream.writelines(f"{line}\n" for line in lines)

    def save(self, step: int) -> Path:
        folder = self.workspace.checkpoint(step)
        folder.mkdir()
        (folder / "model").write_text(str(step))
        (folder / MARKER).touch()
        return folder

    @property
    def arrived(self) -> list[int]:
        return [report.step for report in self.gateway.reports]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_reports_arrive_in_order_and_in_batches(bench: Bench) -> None:
    bench.report(*range(1, 1202))
    while bench.agent.pump():
        pass
    assert bench.arrived == list(range(1, 1202))
    assert bench.gateway.posts == [500, 500, 201]


def test_what_fits_goes_with_the_end_in_one_message(bench: Bench) -> None:
    bench.report(1, 2)
    result = bench.agent.finish(0)
    assert (bench.arrived, bench.gateway.posts) == ([1, 2], [])
    assert bench.gateway.results == [result]
    assert bench.agent.receipt is not None


def test_the_end_of_a_terminated_training_is_left_to_the_caller(bench: Bench) -> None:
    bench.report(1, 2)
    assert bench.agent.finish(0, was_terminated=True).outcome is Outcome.PREEMPTED
    assert bench.arrived == [1, 2]
    assert bench.gateway.results == []


def test_a_gateway_that_never_comes_back_leaves_the_reports_to_the_caller(bench: Bench) -> None:
    def fail() -> None:
        raise GatewayUnreachableError("away")

    bench.report(1, 2)
    bench.gateway.fail = fail
    bench.agent.finish(0)
    assert bench.agent.receipt is None
    assert [report.step for report in bench.agent.unsent] == [1, 2]


def test_a_hundred_thousand_reports_all_arrive_once(bench: Bench) -> None:
    bench.report(*range(1, 100_001))
    result = bench.agent.finish(0)
    assert bench.arrived == list(range(1, 100_001))
    assert result.outcome is Outcome.COMPLETED
    assert result.step == 100_000
    assert bench.gateway.results == [result]


def test_a_slow_gateway_is_given_all_the_time_it_takes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, finish_seconds=5.0)

    def take_long() -> None:
        bench.clock.now += 4

    bench.gateway.fail = take_long
    bench.report(*range(1, 10_001))
    assert bench.agent.finish(0).outcome is Outcome.COMPLETED
    assert bench.arrived == list(range(1, 10_001))


def test_reports_that_cannot_be_delivered_are_trained_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, finish_seconds=5.0)
    bench.gateway.fail = away
    bench.report(*range(1, 1001))
    result = bench.agent.finish(0)
    assert (result.outcome, result.reason) == (Outcome.PREEMPTED, UNDELIVERED)
    assert result.cause is Cause.AGENT_LOST


def test_a_heartbeat_is_sent_every_few_seconds(bench: Bench) -> None:
    for _ in range(600):
        bench.agent.pump()
        bench.clock.now += 0.05
    assert bench.gateway.posts == [0] * len(bench.gateway.posts)
    assert 6 <= len(bench.gateway.posts) <= 15


def test_what_the_gateway_answers_is_written_once(bench: Bench) -> None:
    bench.report(1)
    bench.agent.pump()
    assert not bench.workspace.control.exists()
    bench.gateway.decide = lambda _: Control(action=Action.PAUSE, reason="wait")
    bench.report(2)
    bench.agent.pump()
    assert read_control(bench.workspace.control).action is Action.PAUSE
    assert bench.agent.control.reason == "wait"
    written = bench.workspace.control.stat().st_ino
    bench.report(3)
    bench.agent.pump()
    assert bench.workspace.control.stat().st_ino == written


def test_only_a_change_of_the_requested_action_is_logged(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for step in range(1, 4):
        reason = f"rank 1 of {step}"
        bench.gateway.decide = lambda _, why=reason: Control(reason=why)  # type: ignore[misc]
        bench.report(step)
        bench.agent.pump()
        assert read_control(bench.workspace.control).reason == reason
    assert not caplog.records
    bench.gateway.decide = lambda _: Control(action=Action.STOP, reason="rank 4 of 4")
    for step in (4, 5):
        bench.report(step)
        bench.agent.pump()
    assert len(caplog.records) == 1


def away() -> None:
    raise GatewayUnreachableError("away")


def test_reports_wait_while_the_gateway_is_away(bench: Bench) -> None:
    attempts = []
    bench.gateway.fail = lambda: (attempts.append(bench.clock.now), away())[1]
    for step in range(1, 2001):
        bench.report(step)
        bench.agent.pump()
        bench.clock.now += 0.05
    gaps = [later - earlier for earlier, later in pairwise(attempts)]
    assert max(gaps) == pytest.approx(5.0, abs=0.1)
    assert len(attempts) < 40
    bench.gateway.fail = lambda: None
    bench.clock.now += 10
    while bench.agent.pump():
        pass
    assert bench.arrived == list(range(1, 2001))


@given(seed=st.integers(0, 2**32), chance=st.floats(0, 0.7))
def test_each_report_arrives_once_whatever_the_network_does(
    tmp_path_factory: pytest.TempPathFactory, seed: int, chance: float
) -> None:
    bench = Bench(tmp_path_factory.mktemp("flaky"))
    random = Random(seed)  # noqa: S311
    bench.gateway.fail = lambda: away() if random.random() < chance else None
    step = 0
    for _ in range(30):
        more = random.randrange(40)
        bench.report(*range(step + 1, step + more + 1))
        step += more
        bench.agent.pump()
        bench.clock.now += random.random()
    bench.gateway.fail = lambda: None
    bench.clock.now += 10
    bench.agent.pump()
    bench.agent.pump()
    assert bench.arrived == list(range(1, step + 1))


def test_half_a_line_waits_for_its_other_half(bench: Bench) -> None:
    line = '{"step": 1, "metrics": {"accuracy": 0.5}}\n'
    with bench.workspace.reports.open("a") as stream:
        for part in (line[:10], line[10:-1]):
            stream.write(part)
            stream.flush()
            bench.agent.pump()
            assert bench.arrived == []
        stream.write("\n")
    bench.agent.pump()
    assert bench.arrived == [1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            '{"step": 3, "metrics": {"accuracy": NaN}}',
            "step 3: accuracy is nan, but must be a finite number",
        ),
        (
            '{"step": 3, "metrics": {"accuracy": 1, "loss": -Infinity}}',
            "step 3: loss is -inf, but must be a finite number",
        ),
        (
            '{"step": 2, "metrics": {"accuracy": 1}}',
            "step 2 was reported after step 2, but steps must go up",
        ),
        (
            '{"step": 3, "metrics": {"loss": 1, "acc": 2}}',
            "step 3: accuracy is missing, found acc, loss",
        ),
        ("accuracy=0.5", "after step 2: Report: not JSON (Expecting value: line 1 column 1"),
        ("x" * (1 << 21), "after step 2: reports.jsonl: a line of more than 1048576 bytes"),
    ],
)
def test_a_bad_report_stops_the_training_and_fails_the_trial(
    bench: Bench, line: str, reason: str
) -> None:
    bench.report(1, 2)
    bench.write(line)
    bench.report(4, 5)
    bench.agent.pump()
    assert read_control(bench.workspace.control).action is Action.STOP
    result = bench.agent.finish(0)
    assert result.outcome is Outcome.FAILED
    assert result.cause is Cause.INVALID_REPORT
    assert result.reason.startswith(reason)
    assert result.step == 2
    assert bench.arrived == [1, 2]
    assert bench.gateway.results == [result]


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (GatewayRefusedError("not yours"), CLOSED),
        (LookupError("no such segment"), f"{REJECTED}: no such segment"),
        (ValueError("step is -1"), f"{REJECTED}: step is -1"),
    ],
)
def test_a_refused_agent_stops_the_training_and_sends_nothing_more(
    tmp_path: Path, refusal: Exception, reason: str
) -> None:
    store = Store()
    bench = Bench(tmp_path, upload=store)

    def refuse() -> None:
        raise refusal

    bench.gateway.fail = refuse
    bench.report(1)
    bench.agent.pump()
    assert bench.agent.is_refused
    assert read_control(bench.workspace.control) == Control(action=Action.STOP, reason=reason)
    bench.gateway.fail = lambda: None
    bench.save(1)
    bench.report(2)
    result = bench.agent.finish(0)
    assert result.outcome is Outcome.PREEMPTED
    assert result.reason == reason
    assert bench.gateway.posts == []
    assert bench.gateway.results == []
    assert store.steps == []


def test_a_training_without_reports_has_failed(bench: Bench) -> None:
    result = bench.agent.finish(0)
    assert result.outcome is Outcome.FAILED
    assert result.reason == "the training ended without reporting accuracy"


def test_the_result_comes_back_even_if_the_gateway_does_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path, finish_seconds=0.0)
    bench.gateway.fail = away
    bench.report(1)
    assert bench.agent.finish(0).outcome is Outcome.COMPLETED


def test_the_end_is_told_when_the_gateway_is_back(bench: Bench) -> None:
    failures = iter([True, True, False, True])

    def flaky() -> None:
        if next(failures, False):
            away()

    bench.gateway.fail = flaky
    bench.report(1)
    result = bench.agent.finish(0)
    assert bench.arrived == [1]
    assert bench.gateway.results == [result]


def test_a_whole_checkpoint_is_uploaded_and_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path, upload=Store())
    bench.report(1)
    bench.save(1)
    half = bench.workspace.checkpoint(2)
    half.mkdir()
    (half / "model").write_text("2")
    bench.agent.finish(0)
    assert [checkpoint.step for checkpoint in bench.gateway.checkpoints] == [1]


@pytest.fixture
def hanging() -> Iterator[Store]:
    store = Store(is_open=False)
    yield store
    store.gate.set()


def test_a_store_that_hangs_holds_up_neither_reports_nor_the_end(
    tmp_path: Path, hanging: Store
) -> None:
    bench = Bench(tmp_path, upload=hanging, clock=time.monotonic, finish_seconds=0.2)
    bench.save(1)
    bench.agent.pump()
    assert hanging.started.acquire(timeout=WAIT_SECONDS)
    for step in range(1, 100):
        bench.report(step)
        bench.agent.pump()
        assert bench.arrived[-1] == step
    result = bench.agent.finish(0)
    assert result.outcome is Outcome.COMPLETED
    assert bench.gateway.results == [result]
    assert bench.gateway.checkpoints == []


def test_a_slow_store_gets_the_newest_checkpoint_only(tmp_path: Path, hanging: Store) -> None:
    bench = Bench(tmp_path, upload=hanging)
    bench.save(1)
    bench.agent.pump()
    assert hanging.started.acquire(timeout=WAIT_SECONDS)
    for step in range(2, 11):
        bench.save(step)
        bench.agent.pump()
    assert bench.workspace.complete_steps() == [1, 10]
    hanging.gate.set()
    bench.report(10)
    bench.agent.finish(0)
    assert hanging.steps == [1, 10]
    assert [checkpoint.step for checkpoint in bench.gateway.checkpoints] == [1, 10]
    assert bench.workspace.complete_steps() == [10]


def test_an_upload_that_fails_is_tried_again(tmp_path: Path) -> None:
    store = Store()
    store.errors = [ConnectionResetError("gone"), ConnectionResetError("gone")]
    bench = Bench(tmp_path, upload=store)
    bench.save(4)
    bench.report(4)
    bench.agent.finish(0)
    assert store.steps == [4]


def test_a_checkpoint_that_can_never_be_uploaded_fails_the_trial(tmp_path: Path) -> None:
    store = Store()
    store.errors = [BadCheckpointError("checkpoint 4: the folder is empty")]
    bench = Bench(tmp_path, upload=store)
    bench.save(4)
    bench.report(4)
    result = bench.agent.finish(0)
    assert result.outcome is Outcome.FAILED
    assert result.reason == "checkpoint 4: the folder is empty"


def test_the_checkpoint_that_was_restored_is_not_uploaded_again(tmp_path: Path) -> None:
    store = Store()
    bench = Bench(tmp_path)
    assignment = Assignment(
        study="s", trial=0, segment="a", params={}, metrics=["accuracy"], from_step=5
    )
    agent = Agent(bench.workspace, assignment, bench.gateway, upload=store, clock=bench.clock)
    bench.save(5)
    bench.report(6)
    agent.finish(0)
    assert store.steps == []
    assert bench.arrived == [6]
