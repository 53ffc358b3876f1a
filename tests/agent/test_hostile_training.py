"""Attacks of a training on the agent beside it, by what it writes to the directory they share."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import obstore
import pytest

from hpo_ops.agent import Agent
from hpo_ops.agent._container_training import ContainerTraining
from hpo_ops.agent._curve_forecasts import ChildFitter
from hpo_ops.agent._log_shipping import LogShipper
from hpo_ops.agent._sidecar import Segment, restore, run
from hpo_ops.checkpoints import BadCheckpointError, Checkpoints, Logs, Store, open_store
from hpo_ops.protocol import (
    MARKER,
    Action,
    Assignment,
    Control,
    ForecastOrder,
    Outcome,
    Provenance,
    Report,
    Workspace,
)
from tests.gateways import FakeGateway

SECRET = b"AWS_SECRET_ACCESS_KEY=hunter2\n"
WAIT_SECONDS = 10.0


class Scene:
    """A workspace, an agent beside it, a store on disk, and a secret that is the agent's."""

    def __init__(self, root: Path) -> None:
        self.secret = root / "agent" / "environ"
        self.secret.parent.mkdir()
        self.secret.write_bytes(SECRET)
        self.store: Store = open_store(f"file://{root}/store")
        self.gateway = FakeGateway()
        self.workspace = Workspace(root / "hpo")
        self.workspace.root.mkdir()
        self.assignment = Assignment(
            study="s", trial=3, segment="a", params={}, metrics=["m"], until_step=5
        )
        self.checkpoints = Checkpoints(self.store, "s")
        self.segment = Segment(
            assignment=self.assignment,
            workspace=self.workspace,
            store=self.store,
            checkpoints=self.checkpoints,
            logs=Logs(self.store, "s"),
            gateway=self.gateway,  # type: ignore[arg-type]  # what an agent needs of it
            code=None,
        )

    def agent(self) -> Agent:
        self.workspace.prepare(self.assignment)
        return Agent(
            self.workspace,
            self.assignment,
            self.gateway,
            upload=partial(self.checkpoints.upload, self.assignment.trial),
            finish_seconds=WAIT_SECONDS,
        )

    def stored(self) -> dict[str, bytes]:
        return {
            item["path"]: bytes(obstore.get(self.store, item["path"]).bytes())
            for page in obstore.list(self.store)
            for item in page
        }

    def save(self, step: int) -> Path:
        folder = self.workspace.checkpoint(step)
        folder.mkdir(parents=True)
        (folder / "model").write_bytes(b"weights")
        (folder / MARKER).touch()
        return folder


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/true")
    return Scene(tmp_path)


def report(step: int) -> str:
    return Report(step=step, metrics={"m": 0.5}).to_json() + "\n"


@contextmanager
def at_work(workspace: Workspace, until: Callable[[], bool]) -> Iterator[None]:
    """A training's container that is at work, and ends well once something has come about."""
    os.mkfifo(workspace.root / "alive")
    alive = os.open(workspace.root / "alive", os.O_RDWR)
    (workspace.root / "started").touch()
    is_over = threading.Event()

    def end() -> None:
        for _ in range(round(WAIT_SECONDS / 0.05)):
            if until() or is_over.wait(0.05):
                break
        (workspace.root / "exit_code").write_text("0")

    thread = threading.Thread(target=end)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        os.close(alive)


def in_time(work: Callable[[], object]) -> bool:
    """Whether something ends by itself, instead of waiting for a pipe that nobody writes to."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(WAIT_SECONDS)
    return not thread.is_alive()


# -- the assignment --------------------------------------------------------------------------


def test_a_training_that_rewrites_its_assignment_runs_nothing_and_writes_nowhere_else(
    scene: Scene, tmp_path: Path
) -> None:
    """The agent would construct the class that is named there, with the agent's keys."""
    restore(scene.segment)
    forged = json.loads(scene.workspace.assignment.read_bytes())
    forged["trial"] = 99
    forged["forecasts"] = ForecastOrder(
        every=1,
        last_step=5,
        predictor="subprocess:Popen",
        options={"args": ["touch", str(tmp_path / "was-here")]},
    ).to_dict()
    scene.workspace.assignment.write_text(json.dumps(forged))
    scene.workspace.reports.write_text("".join(map(report, range(1, 5))))
    scene.workspace.log.write_text("epoch 1\n")
    scene.save(4)
    with at_work(scene.workspace, until=lambda: len(scene.gateway.reports) == 4):
        run(scene.segment)
    assert not (tmp_path / "was-here").exists()
    kept = scene.stored()
    assert [path for path in kept if "/99/" in path] == []
    assert kept["s/logs/3/a/training/000000.log"] == b"epoch 1\n"
    assert "s/trials/3/4/model" in kept


def test_the_step_that_was_restored_reaches_the_agent_where_no_training_can_forge_it(
    scene: Scene, tmp_path: Path
) -> None:
    """The checkpoint of step 4 is lost; the training says that it began at step 0."""
    (tmp_path / "own").mkdir()
    segment = replace(
        scene.segment,
        assignment=replace(scene.assignment, from_step=4),
        own_folder=tmp_path / "own",
    )
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "model").write_bytes(b"two")
    scene.checkpoints.upload(3, 2, saved)
    restore(segment)
    forged = Assignment.from_json(segment.workspace.assignment.read_bytes())
    assert forged.from_step == 2
    segment.workspace.assignment.write_text(replace(forged, from_step=0).to_json())
    segment.workspace.reports.write_text("".join(map(report, (1, 2, 3))))
    (segment.workspace.root / "exit_code").write_text("0")
    run(segment)
    (result,) = scene.gateway.results
    assert (result.outcome, result.step) == (Outcome.FAILED, 2)
    assert result.reason == "step 1 was reported after step 2, but steps must go up"


# -- links in the place of files -------------------------------------------------------------


def test_a_file_that_is_swapped_for_a_link_while_it_is_uploaded_leaks_nothing(
    scene: Scene,
) -> None:
    folder = scene.save(1)
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            (folder / ".link").symlink_to(scene.secret)
            (folder / ".link").replace(folder / "model")
            (folder / ".file").write_bytes(b"weights")
            (folder / ".file").replace(folder / "model")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(400):
            with suppress(BadCheckpointError, OSError):  # the link, or a passing name, was seen
                scene.checkpoints.upload(3, 1, folder)
            assert SECRET not in scene.stored().values()
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("place", ["checkpoints/1", "checkpoints/1/more", "checkpoints"])
def test_a_folder_of_checkpoints_that_is_a_link_is_not_uploaded(scene: Scene, place: str) -> None:
    agent = scene.agent()
    elsewhere = scene.secret.parent
    (elsewhere / MARKER).touch()
    (elsewhere / "1").mkdir()
    for name in (MARKER, "environ"):
        shutil.copy(elsewhere / name, elsewhere / "1" / name)
    if place.endswith("more"):
        scene.save(1)
    if place == "checkpoints":
        scene.workspace.checkpoints.rmdir()
    (scene.workspace.root / place).symlink_to(elsewhere)
    scene.workspace.reports.write_text(report(1))
    result = agent.finish(0)
    assert not any(SECRET in content for content in scene.stored().values())
    assert result.outcome is Outcome.FAILED
    assert "checkpoint" in result.reason


def test_old_checkpoints_are_not_deleted_through_a_link(scene: Scene) -> None:
    agent = scene.agent()
    scene.workspace.checkpoints.rmdir()
    for step in ("1", "2"):
        (scene.secret.parent / step).mkdir()
        (scene.secret.parent / step / MARKER).touch()
    scene.workspace.checkpoints.symlink_to(scene.secret.parent)
    agent.pump()
    assert sorted(os.listdir(scene.secret.parent)) == ["1", "2", "environ"]  # noqa: PTH208


def test_a_log_that_is_a_link_is_neither_shipped_nor_quoted(scene: Scene) -> None:
    agent = scene.agent()
    scene.workspace.log.symlink_to(scene.secret)
    shipper = LogShipper(scene.segment.logs, 3, "a", {"training": scene.workspace.log})
    shipper.finish(WAIT_SECONDS)
    assert scene.stored() == {}
    result = agent.finish(1)
    assert (result.outcome, result.reason) == (Outcome.FAILED, "exit code 1")


@pytest.mark.parametrize("name", ["reports.jsonl", "result.json", "software.json"])
def test_what_a_training_says_is_not_read_through_a_link(scene: Scene, name: str) -> None:
    said = {
        "reports.jsonl": report(7),
        "result.json": '{"outcome": "failed", "reason": "hunter2"}',
        "software.json": Provenance(python="hunter2").to_json(),
    }
    scene.secret.write_text(said[name])
    agent = scene.agent()
    scene.workspace.reports.write_text(report(1))
    (scene.workspace.root / name).unlink(missing_ok=True)
    (scene.workspace.root / name).symlink_to(scene.secret)
    result = agent.finish(0)
    assert "hunter2" not in result.reason
    assert scene.gateway.provenance.python is None
    assert 7 not in [item.step for item in scene.gateway.reports]


# -- pipes that would keep the agent waiting -------------------------------------------------


def test_a_pipe_in_the_place_of_a_file_does_not_keep_the_agent(scene: Scene) -> None:
    agent = scene.agent()
    folder = scene.save(1)
    (folder / "model").unlink()
    os.mkfifo(folder / "model")
    os.mkfifo(scene.workspace.log)
    os.mkfifo(scene.workspace.result)
    os.mkfifo(scene.workspace.root / "exit_code")
    (scene.workspace.root / "started").touch()
    (scene.workspace.root / "alive").symlink_to("/dev/zero")
    training = ContainerTraining(scene.workspace, grace_seconds=1)
    shipper = LogShipper(scene.segment.logs, 3, "a", {"training": scene.workspace.log})
    assert in_time(lambda: (training.has_ended, training.exit_code, training.was_killed))
    assert in_time(shipper.ship)
    assert in_time(lambda: agent.finish(1))
    (result,) = scene.gateway.results
    assert result.outcome is Outcome.FAILED


# -- what the agent writes -------------------------------------------------------------------


def test_the_agent_writes_through_no_link(scene: Scene, tmp_path: Path) -> None:
    """A link to a file of the agent's own container, in the place of each file that it writes."""
    restore(scene.segment)
    root = scene.workspace.root
    for name in ("agent.log", "delivered", "control.json", f".control.json.{os.getpid()}"):
        (root / name).symlink_to(scene.secret)
    (tmp_path / "touched").mkdir()
    (root / "delivered").unlink()
    (root / "delivered").symlink_to(tmp_path / "touched" / "by-the-agent")
    scene.gateway.decide = lambda _: Control(action=Action.STOP, reason="enough")
    scene.workspace.reports.write_text(report(1))
    with at_work(scene.workspace, until=lambda: bool(scene.gateway.posts)):
        run(scene.segment)
    assert scene.secret.read_bytes() == SECRET
    assert list((tmp_path / "touched").iterdir()) == []
    # The training is told all the same.
    assert Control.from_json((root / "control.json").read_bytes()).action is Action.STOP
    assert (root / "delivered").exists()


# -- what a training says of itself ----------------------------------------------------------


def test_a_training_cannot_say_what_it_was_made_from(scene: Scene) -> None:
    """The score cache and `hpo reproduce` go by that."""
    agent = scene.agent()
    said = Provenance(code_hash="0" * 32, image="trusted:1", commit="c0ffee", python="3.12")
    scene.workspace.software.write_text(said.to_json())
    scene.workspace.reports.write_text(report(1))
    agent.finish(0)
    assert scene.gateway.provenance == Provenance(python="3.12")


def test_a_reason_that_is_no_text_is_the_trainings_failure_not_the_agents(scene: Scene) -> None:
    agent = scene.agent()
    scene.workspace.reports.write_text(report(1))
    scene.workspace.result.write_text('{"outcome": "completed", "reason": 5}')
    assert agent.finish(0).outcome is Outcome.FAILED


# -- the child that fits curves --------------------------------------------------------------


def test_the_process_that_fits_curves_has_none_of_the_agents_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HPO_TOKEN", "AWS_SECRET_ACCESS_KEY", "HPO_LEDGER_URL", "AIRFLOW_CONN_X"):
        monkeypatch.setenv(name, "hunter2")
    seen = tmp_path / "environment.json"
    program = (
        "import json, os, sys; sys.stdin.readline(); "
        f"open({str(seen)!r}, 'w').write(json.dumps(dict(os.environ)))"
    )
    fitter = ChildFitter([sys.executable, "-c", program])
    fitter.begin(ForecastOrder(every=1, last_step=5), [(1, 0.5)])
    is_over = threading.Event()
    while fitter.poll() is None:
        is_over.wait(0.05)
    fitter.close()
    environment = json.loads(seen.read_text())
    assert "hunter2" not in environment.values()
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["OMP_NUM_THREADS"] == "1"
