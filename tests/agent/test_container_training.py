"""The training beside an agent: started by run.sh, as in a pod, with this machine's shell."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hpo_ops.agent
from hpo_ops.agent._container_training import ContainerTraining
from hpo_ops.agent.termination import KILL_SECONDS
from hpo_ops.protocol import SIDECAR_VARIABLE, Action, Control, Workspace

RUN = Path(hpo_ops.agent.__file__).with_name("run.sh")
SAVES = """
import signal, sys, time
def leave(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("up", flush=True)
time.sleep(60)
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(60)
"""


class Container:
    """run.sh, as Kubernetes would start it."""

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(root)
        self.training = ContainerTraining(self.workspace, grace_seconds=10)
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, program: str, **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["sh", str(RUN), sys.executable, "-c", program],
            env={**os.environ, "HPO_DIR": str(self.workspace.root), **variables},
            start_new_session=True,
            stdout=subprocess.PIPE,
        )
        self._started.append(process)
        wait_for(lambda: self.training.has_started)
        return process

    def start_and_wait(self, program: str, **variables: str) -> subprocess.Popen[bytes]:
        """Returns when the training has said that it is up."""
        process = self.start(program, **variables)
        log = self.workspace.log
        wait_for(lambda: log.exists() and "up" in log.read_text())
        return process

    def end(self) -> None:
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def wait_for(is_true: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    made = Container(tmp_path)
    yield made
    made.end()


def test_an_exit_code_and_a_log_are_left_for_the_agent(container: Container) -> None:
    process = container.start("print('hello'); raise SystemExit(3)")
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (3, b"hello\n")
    assert container.training.has_ended
    assert container.training.exit_code == 3
    assert not container.training.was_killed
    assert not container.training.was_terminated
    assert container.workspace.log.read_text() == "hello\n"


def test_a_program_of_the_image_is_taken_before_one_that_the_shell_has_itself(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own programs"
    own.mkdir()
    (own / "echo").write_text('#!/bin/sh\nprintf "%s|" of the image "$@"\n')
    (own / "echo").chmod(0o755)
    environment = {"HPO_DIR": str(tmp_path), "PATH": f"{own}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", str(RUN), "echo", "two words", "a:b"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "of|the|image|two words|a:b|"


def test_the_log_is_whole_when_the_exit_code_is_there(container: Container) -> None:
    container.start("print('x' * 60_000); print('last')")
    wait_for(lambda: container.training.has_ended)
    assert container.workspace.log.read_text().endswith("x\nlast\n")


def test_a_signal_to_the_container_reaches_the_training(container: Container) -> None:
    process = container.start_and_wait(SAVES)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert output == b"up\nsaved\n"
    assert (process.returncode, container.training.exit_code) == (0, 0)
    assert container.training.was_terminated


def test_a_container_that_is_killed_is_told_from_one_at_work(container: Container) -> None:
    process = container.start_and_wait(DEAF)
    assert not container.training.has_ended
    os.killpg(process.pid, signal.SIGKILL)
    wait_for(lambda: container.training.has_ended)
    assert container.training.exit_code is None
    assert container.training.was_killed


def test_a_training_that_does_not_leave_is_ended(container: Container) -> None:
    container.start_and_wait(DEAF)
    stop = Control(action=Action.STOP, reason="enough")
    container.training.check(stop, now=0.0)
    container.training.check(stop, now=9.0)
    assert not (container.workspace.root / "signal").exists()
    container.training.check(stop, now=10.0)
    wait_for(lambda: not (container.workspace.root / "signal").exists())
    assert not container.training.has_ended
    container.training.check(stop, now=10.0 + KILL_SECONDS)
    wait_for(lambda: container.training.has_ended)
    assert container.training.was_killed


def test_a_training_that_may_go_on_after_all_is_left_alone(container: Container) -> None:
    container.training.check(Control(action=Action.PAUSE, reason="wait"), now=0.0)
    container.training.check(Control(), now=5.0)
    container.training.check(Control(action=Action.PAUSE, reason="wait"), now=11.0)
    assert not (container.workspace.root / "signal").exists()


SIDECAR = {SIDECAR_VARIABLE: "1"}


def test_a_container_beside_a_native_sidecar_stays_until_all_is_out(container: Container) -> None:
    process = container.start("raise SystemExit(3)", **SIDECAR)
    wait_for(lambda: container.training.has_ended)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    container.workspace.delivered.touch()
    assert process.wait(timeout=10) == 3


def test_a_container_that_waits_for_a_sidecar_leaves_when_it_is_terminated(
    container: Container,
) -> None:
    process = container.start("raise SystemExit(0)", **SIDECAR)
    wait_for(lambda: container.training.has_ended)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 0
    # It had come to its end by itself.
    assert not container.training.was_terminated


def test_a_training_that_is_terminated_leaves_before_its_sidecar(container: Container) -> None:
    """Which is told only then, and has the rest of the time."""
    process = container.start_and_wait(SAVES, **SIDECAR)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 0
    assert container.training.was_terminated


def test_the_scripts_of_a_pod_use_the_file_names_of_the_workspace() -> None:
    """They run in images without this package, and so cannot ask the workspace for names."""
    here = Workspace(Path("/hpo"))
    script = RUN.read_text()
    for path in (
        here.alive,
        here.delivered,
        here.exit_code,
        here.log,
        here.packages,
        here.signal,
        here.started,
        here.terminated,
        here.tools,
    ):
        assert f"$hpo/{path.name}" in script, path
    install = RUN.with_name("package_install.py").read_text()
    assert f'root / "{here.packages.name}"' in install
    assert f'root / "{here.packages_log.name}"' in install
