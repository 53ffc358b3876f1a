from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

import pytest

from hpo_ops.checkpoints import Checkpoints, open_store
from hpo_ops.protocol import Action, Assignment, Checkpoint, Control, Folder, Outcome, Report
from hpo_ops.runners.local._process_runner import ProcessRunner
from hpo_ops.runners.local._warm_starter import WarmStarter
from hpo_ops.runners.segment_with_agent import run_segment
from tests.gateways import FakeGateway

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
COUNTER = """
import yaml
from hpo_ops.sdk import trial
state = [0]
def save(folder): (folder / "sum").write_text(str(state[0]))
def load(folder): state[0] = int((folder / "sum").read_text())
trial.checkpointed(save=save, load=load)
for step in trial.steps():
    state[0] += step
    trial.report(step, state[0])
"""


def assignment(**fields: object) -> Assignment:
    values: dict[str, object] = {
        "study": "digits",
        "trial": 4,
        "segment": "a",
        "params": {"lr": 0.05, "width": 32, "optimizer": "sgd", "dropout": 0.2},
        "metrics": ["accuracy"],
        "seed": 7,
        "until_step": 6,
    }
    return Assignment.from_dict(values | fields)


def numbers(reports: list[Report]) -> dict[int, dict[str, float]]:
    return {report.step: report.metrics for report in reports}


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(open_store(f"file://{tmp_path}/store"), "digits")


@pytest.fixture
def counter(tmp_path: Path, runtime: Path) -> ProcessRunner:
    (tmp_path / "train.py").write_text(COUNTER)
    return ProcessRunner("python train.py", tmp_path, warm=WarmStarter(runtime))


def test_a_killed_training_goes_on_with_exactly_the_same_numbers(
    tmp_path: Path, runtime: Path, checkpoints: Checkpoints
) -> None:
    def train(gateway: FakeGateway, **fields: object) -> Outcome:
        runners.append(ProcessRunner("python train.py", DIGITS, warm=WarmStarter(runtime)))
        return run_segment(
            assignment(**fields),
            root=tmp_path / "hpo",
            runner=runners[-1],
            gateway=gateway,
            checkpoints=checkpoints,
        ).result.outcome

    def kill(reports: list[Report]) -> Control:
        if len(reports) >= 3 and runners[-1].pid is not None:
            with contextlib.suppress(ProcessLookupError):  # its last reports come after its end
                os.kill(runners[-1].pid, signal.SIGKILL)
        return Control()

    runners: list[ProcessRunner] = []
    whole, first, second = FakeGateway(), FakeGateway(kill), FakeGateway()
    assert train(whole, trial=0) is Outcome.COMPLETED
    assert train(first) is Outcome.PREEMPTED
    step = first.checkpoints[-1].step
    assert 0 < step < 6
    assert checkpoints.complete(4)[-1].step == step
    assert train(second, from_step=step) is Outcome.COMPLETED
    assert min(numbers(second.reports)) == step + 1
    assert numbers(first.reports) | numbers(second.reports) == numbers(whole.reports)
    assert numbers(whole.reports)[6]["accuracy"] > 0.9


def test_a_paused_trial_goes_on_where_it_was(
    tmp_path: Path, counter: ProcessRunner, checkpoints: Checkpoints
) -> None:
    gateway = FakeGateway(lambda _: Control(action=Action.PAUSE, reason="wait"))
    first = run_segment(
        assignment(until_step=10**9), root=tmp_path / "hpo", runner=counter,
        gateway=gateway, checkpoints=checkpoints,
    ).result  # fmt: skip
    assert first.outcome is Outcome.PAUSED
    assert gateway.checkpoints[-1].step == first.step
    second = FakeGateway()
    result = run_segment(
        assignment(from_step=first.step, until_step=first.step + 2), root=tmp_path / "hpo",
        runner=counter, gateway=second, checkpoints=checkpoints,
    ).result  # fmt: skip
    assert result.outcome is Outcome.COMPLETED
    assert numbers(second.reports) == {
        step: {"accuracy": step * (step + 1) // 2} for step in (first.step + 1, first.step + 2)
    }


def test_without_its_checkpoint_a_trial_begins_again(
    tmp_path: Path, counter: ProcessRunner, checkpoints: Checkpoints
) -> None:
    gateway = FakeGateway()
    result = run_segment(
        assignment(from_step=5, until_step=6), root=tmp_path / "hpo", runner=counter,
        gateway=gateway, checkpoints=checkpoints,
    ).result  # fmt: skip
    assert result.outcome is Outcome.COMPLETED
    assert list(numbers(gateway.reports)) == [1, 2, 3, 4, 5, 6]


def test_a_store_that_hangs_does_not_hold_up_a_training(
    tmp_path: Path,
    counter: ProcessRunner,
    checkpoints: Checkpoints,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = threading.Event()

    def hang(_trial: int, step: int, _folder: Folder) -> Checkpoint:
        gate.wait(30)
        return Checkpoint(step=step, uri="", files=0, bytes=0)

    monkeypatch.setattr(checkpoints, "upload", hang)
    gateway = FakeGateway()
    result = run_segment(
        assignment(until_step=200), root=tmp_path / "hpo", runner=counter, gateway=gateway,
        checkpoints=checkpoints, finish_seconds=0.2,
    ).result  # fmt: skip
    gate.set()
    assert result.outcome is Outcome.COMPLETED
    assert len(gateway.reports) == 200
    assert gateway.results == [result]
    assert gateway.checkpoints == []


def test_a_long_restore_sends_heartbeats(
    tmp_path: Path,
    counter: ProcessRunner,
    checkpoints: Checkpoints,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = FakeGateway()
    has_beaten = threading.Event()

    def answer(_: list[Report]) -> Control:
        has_beaten.set()
        return Control()

    gateway.decide = answer
    monkeypatch.setattr("hpo_ops.agent.checkpoint_restore.HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(checkpoints, "restore", lambda *_, **__: has_beaten.wait(30) and None)
    run_segment(
        assignment(from_step=2, until_step=3), root=tmp_path / "hpo", runner=counter,
        gateway=gateway, checkpoints=checkpoints,
    )  # fmt: skip
    assert gateway.posts[0] == 0


def test_a_store_that_is_away_is_an_error_when_there_is_work_to_restore(
    tmp_path: Path,
    counter: ProcessRunner,
    checkpoints: Checkpoints,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(*_: object, **__: object) -> None:
        raise ConnectionResetError("away")

    monkeypatch.setattr(checkpoints, "restore", away)
    with pytest.raises(ConnectionResetError):
        run_segment(
            assignment(from_step=2), root=tmp_path / "hpo", runner=counter,
            gateway=FakeGateway(), checkpoints=checkpoints,
        )  # fmt: skip


def test_a_segment_goes_on_from_the_checkpoint_of_another_trial(
    tmp_path: Path, counter: ProcessRunner, checkpoints: Checkpoints
) -> None:
    def train(gateway: FakeGateway, **fields: object) -> Outcome:
        return run_segment(
            assignment(metrics=["value"], **fields),
            root=tmp_path / "hpo",
            runner=counter,
            gateway=gateway,
            checkpoints=checkpoints,
        ).result.outcome

    short, longer = FakeGateway(), FakeGateway()
    assert train(short, trial=1, until_step=3) is Outcome.COMPLETED
    place = "digits/trials/1"
    assert train(longer, trial=2, from_step=3, restore_from=place) is Outcome.COMPLETED
    assert numbers(longer.reports) == {4: {"value": 10}, 5: {"value": 15}, 6: {"value": 21}}
