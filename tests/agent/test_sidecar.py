"""What the agent's containers of a pod do around the training."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpo_ops.agent._sidecar import Segment, restore, run
from hpo_ops.checkpoints import Checkpoints, Logs, open_store, upload_code
from hpo_ops.protocol import MARKER, Assignment, Report, Workspace
from tests.gateways import FakeGateway


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.sh").write_text("#!/bin/sh\n")
    (folder / "train.sh").chmod(0o755)
    (folder / "data.txt").write_text("1")
    return folder


def a_segment(root: Path, code: Path, **fields: object) -> Segment:
    store = open_store("memory:///")
    values = {"study": "s", "trial": 3, "segment": "a", "params": {"x": 1}, "metrics": ["m"]}
    return Segment(
        assignment=Assignment(**{**values, **fields}),  # type: ignore[arg-type]  # fields of a test
        workspace=Workspace(root),
        store=store,
        checkpoints=Checkpoints(store, "s"),
        logs=Logs(store, "s"),
        gateway=FakeGateway(),  # type: ignore[arg-type]  # what restoring needs of it
        code=upload_code(store, code),
    )


def test_code_checkpoint_and_shell_are_in_place(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/true")
    root = tmp_path / "hpo"
    root.mkdir()
    segment = a_segment(root, code, from_step=5, until_step=9)
    saved = tmp_path / "4"
    saved.mkdir()
    (saved / "model").write_text("weights")
    segment.checkpoints.upload(3, 4, saved)

    restore(segment)

    told = Assignment.from_json(segment.workspace.assignment.read_bytes())
    # The checkpoint of step 5 is lost: the training begins at the one before.
    assert (told.from_step, told.until_step, told.params) == (4, 9, {"x": 1})
    assert (root / "checkpoints" / "4" / "model").read_text() == "weights"
    assert (root / "checkpoints" / "4" / MARKER).exists()
    assert os.access(root / "code" / "train.sh", os.X_OK)
    assert not (root / "code" / "data.txt").stat().st_mode & 0o111
    assert os.access(root / "bin" / "busybox", os.X_OK)
    assert (root / "bin" / "tee").readlink() == Path("busybox")


def test_the_training_may_be_another_user(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/true")
    root = tmp_path / "hpo"
    root.mkdir()
    restore(a_segment(root, code))
    for path in (root, *root.rglob("*")):
        assert path.is_symlink() or path.stat().st_mode & 0o666 == 0o666, path


def test_an_agent_without_a_shell_to_bring_says_so(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    (tmp_path / "hpo").mkdir()
    with pytest.raises(FileNotFoundError, match="busybox-static"):
        restore(a_segment(tmp_path / "hpo", code))


def test_the_agent_of_a_training_that_never_started_leaves_when_its_pod_is_terminated(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its image cannot be pulled, say."""
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/true")
    (tmp_path / "hpo").mkdir()
    segment = a_segment(tmp_path / "hpo", code)
    restore(segment)
    is_over = threading.Event()

    def tell() -> None:
        while not is_over.wait(0.1):
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    teller = threading.Thread(target=tell)
    teller.start()
    try:
        run(segment)
    finally:
        is_over.set()
        teller.join()
        signal.signal(signal.SIGTERM, before)
    # Kubernetes knows why it never started, and the task asks it.
    assert segment.gateway.results == []  # type: ignore[attr-defined]  # the fake's


def test_an_agent_that_fails_leaves_its_log_and_that_of_the_training(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("never seen before")

    monkeypatch.setattr(shutil, "which", lambda _: "/bin/true")
    root = tmp_path / "hpo"
    root.mkdir()
    segment = a_segment(root, code)
    restore(segment)
    segment.workspace.log.write_text("epoch 1\n")
    segment.workspace.reports.write_text(Report(step=1, metrics={"m": 0.5}).to_json() + "\n")
    segment.gateway.fail = fail  # type: ignore[attr-defined]  # the fake's
    with pytest.raises(RuntimeError, match="never seen before"):
        run(segment)
    logs = {ref.container: b"".join(segment.logs.read(ref)) for ref in segment.logs.all()}
    assert logs["training"] == b"epoch 1\n"


def test_a_native_sidecar_stays_until_it_is_terminated(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes would start it again; a file tells the training that it may go."""
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/true")
    root = tmp_path / "hpo"
    root.mkdir()
    segment = replace(a_segment(root, code, until_step=1), is_sidecar=True)
    restore(segment)
    segment.workspace.reports.write_text(Report(step=1, metrics={"m": 0.5}).to_json() + "\n")
    (root / "exit_code").write_text("0")
    results: list[object] = []

    def tell() -> None:
        while not Workspace(root).delivered.exists():
            time.sleep(0.02)
        results.extend(segment.gateway.results)  # type: ignore[attr-defined]  # the fake's
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        run(segment)
    finally:
        signal.signal(signal.SIGTERM, before)
    teller.join()
    assert len(results) == 1  # before it said that all is out
