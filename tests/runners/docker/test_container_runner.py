"""Segments in real containers, with a real agent and a fake gateway."""

from __future__ import annotations

import textwrap
import threading
import time
from pathlib import Path

import pytest

from hpo_ops.agent import Agent
from hpo_ops.config import Resources
from hpo_ops.protocol import Action, Assignment, Cause, Control, Outcome, SegmentResult, Workspace
from hpo_ops.runners.docker._container_runner import ContainerRunner
from hpo_ops.runners.docker._container_spec import NOBODY, SegmentContainer, User
from hpo_ops.runners.docker._engine_api import DockerEngine
from tests.docker_engine import IMAGE
from tests.gateways import FakeGateway

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

FOREVER = """
import itertools, time
from hpo_ops.sdk import trial
def save(folder): (folder / "x").touch()
trial.checkpointed(save=save, load=print)
for step in itertools.count(1):
    trial.report(step, 0)
    print("step", step)
    time.sleep(0.05)
"""


class Bench:
    """Runs small scripts as trials in containers."""

    def __init__(self, engine: DockerEngine, root: Path) -> None:
        self.engine = engine
        self.code = root / "code"
        self.code.mkdir()
        self.code.chmod(0o755)
        self.root = root
        self.gateway = FakeGateway()
        self.lines: list[str] = []
        self.runner: ContainerRunner | None = None

    def run(
        self,
        script: str,
        *,
        segment: str = "a",
        grace_seconds: float = 30.0,
        memory: str = "256Mi",
        next_memory: str | None = None,
    ) -> SegmentResult:
        (self.code / "train.py").write_text(textwrap.dedent(script))
        assignment = Assignment(
            study="s", trial=0, segment=segment, params={}, metrics=["score"], until_step=1000
        )
        self.runner = ContainerRunner(
            self.engine,
            SegmentContainer(
                assignment=assignment,
                study="s/run-1",
                command="python train.py",
                image=IMAGE,
                code=self.code,
                user=User(uid=NOBODY, gid=NOBODY),
                resources=Resources(memory=memory),
                environment={"LEVEL": "3"},
            ),
            next_memory=next_memory,
            on_line=self.lines.append,
            kill_seconds=0.5,
        )
        workspace = Workspace(self.root / segment)
        workspace.prepare(assignment)
        agent = Agent(workspace, assignment, self.gateway)
        return self.runner.run(workspace, agent, grace_seconds=grace_seconds)

    def begin(self, script: str) -> tuple[threading.Thread, list[SegmentResult]]:
        """Runs a script in a thread, until it has printed something."""
        results: list[SegmentResult] = []
        thread = threading.Thread(target=lambda: results.append(self.run(script)))
        thread.start()
        give_up_at = time.monotonic() + 30
        while not self.lines:
            assert time.monotonic() < give_up_at
            time.sleep(0.05)
        return thread, results


@pytest.fixture
def bench(engine: DockerEngine, tmp_path: Path) -> Bench:
    return Bench(engine, tmp_path)


def test_a_training_runs_as_nobody_with_its_code_and_without_a_network(bench: Bench) -> None:
    result = bench.run(
        """
        import os, socket
        from hpo_ops.sdk import trial
        print(os.getuid(), os.getcwd(), os.environ["LEVEL"], os.environ["HPO_DIR"])
        print([name for _, name in socket.if_nameindex()])
        for path in ("/root-file", "code-file", "/tmp/file", "/hpo/file"):
            try:
                open(path, "w").close()
            except OSError as error:
                print(path, error.strerror)
        print(open("/proc/self/status").read().split("CapEff:")[1].split()[0])
        trial.report(1, 0.5)
        """
    )
    assert (result.outcome, result.step) == (Outcome.COMPLETED, 1), bench.lines
    assert bench.lines == [
        f"{NOBODY} /hpo-code 3 /hpo",
        "['lo']",
        "/root-file Read-only file system",
        "code-file Read-only file system",
        "0" * 16,
    ]
    assert bench.gateway.results[-1].outcome is Outcome.COMPLETED
    assert bench.runner is not None
    assert (bench.runner.provenance().image_digest or "").startswith("sha256:")
    assert bench.engine.list_containers({}) == []


def test_a_failure_of_the_training_is_told_with_its_last_line(bench: Bench) -> None:
    result = bench.run("raise RuntimeError('no data')")
    assert result.outcome is Outcome.FAILED
    assert result.reason == "exit code 1: RuntimeError: no data"
    assert result.cause is Cause.TRAINING_ERROR


def test_a_killed_container_is_preempted(bench: Bench) -> None:
    thread, results = bench.begin(FOREVER)
    (container,) = bench.engine.list_containers({"hpo-ops/segment": "a"})
    bench.engine.send_signal(container.id, "SIGKILL")
    thread.join(30)
    assert [(item.outcome, item.cause) for item in results] == [(Outcome.PREEMPTED, Cause.KILLED)]


def test_a_training_that_is_asked_to_stop_leaves_by_itself(bench: Bench) -> None:
    stop = Control(action=Action.STOP, reason="not good enough")
    bench.gateway.decide = lambda _: stop
    result = bench.run(FOREVER)
    assert (result.outcome, result.reason) == (Outcome.STOPPED, "not good enough")


def test_a_cancelled_task_lets_its_training_save(bench: Bench) -> None:
    thread, results = bench.begin(FOREVER)
    assert bench.runner is not None
    bench.runner.terminate()
    thread.join(30)
    assert [item.outcome for item in results] == [Outcome.PREEMPTED]
    assert bench.engine.list_containers({}) == []


def test_a_training_that_does_not_leave_is_killed(bench: Bench) -> None:
    stop = Control(action=Action.STOP, reason="enough")
    bench.gateway.decide = lambda _: stop
    result = bench.run(
        """
        import signal, time
        from hpo_ops.sdk import trial
        trial.params
        signal.signal(signal.SIGTERM, lambda *_: print("ignored"))
        trial.report_last(1, {"score": 0})
        while True: time.sleep(1)
        """,
        grace_seconds=0.5,
    )
    assert (result.outcome, result.reason) == (
        Outcome.STOPPED,
        "enough (killed by signal 9)",
    )
    assert "ignored" in bench.lines


def test_a_training_that_runs_out_of_memory_fails_and_the_caller_tells(bench: Bench) -> None:
    result = bench.run("bytearray(500_000_000)", memory="64Mi")
    assert result.outcome is Outcome.FAILED
    assert result.cause is Cause.OUT_OF_MEMORY
    assert result.reason == "out of memory: it needed more than 64Mi"
    assert bench.gateway.results == []


def test_a_training_that_may_have_more_memory_is_tried_again(bench: Bench) -> None:
    result = bench.run("bytearray(500_000_000)", memory="64Mi", next_memory="1Gi")
    assert (result.outcome, result.cause) == (Outcome.PREEMPTED, Cause.OUT_OF_MEMORY)
    assert result.reason == "out of memory: it needed more than 64Mi; the next attempt gets 1Gi"


def test_the_container_of_a_task_that_died_is_removed_by_the_next_try(bench: Bench) -> None:
    thread, results = bench.begin(FOREVER)
    (left,) = bench.engine.list_containers({"hpo-ops/trial": "0"})
    result = bench.run("from hpo_ops.sdk import trial; trial.report(1, 1)", segment="b")
    thread.join(30)
    assert result.outcome is Outcome.COMPLETED
    assert results[0].outcome is Outcome.PREEMPTED
    assert left.id not in {item.id for item in bench.engine.list_containers({})}
