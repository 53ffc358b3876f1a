from __future__ import annotations

import os
import select
import shutil
import socket
import struct
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpo_ops.agent import Agent
from hpo_ops.protocol import Assignment, SegmentResult, Workspace
from hpo_ops.runners.local._process_runner import ProcessRunner
from hpo_ops.runners.local._warm_starter import WarmStarter
from tests.gateways import FakeGateway

WAIT_SECONDS = 30.0


def has_ended(pid: int) -> bool:
    """Waits for a process, of whomever, to be gone; whether it is."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], WAIT_SECONDS)[0])
    finally:
        os.close(descriptor)


def fork_server_of(path: Path) -> int:
    """The process id of the fork server that listens on a socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", data)[0])


class Bench:
    """Runs small scripts as trials, cold or warm."""

    def __init__(self, root: Path, warm: WarmStarter | None) -> None:
        self.code = root / "code"
        self.code.mkdir()
        self.workspace = Workspace(root / "hpo")
        self.gateway = FakeGateway()
        self.warm = warm
        self.lines: list[str] = []
        self.on_line: Callable[[str], None] = lambda _: None
        self.runner: ProcessRunner | None = None

    def run(
        self,
        script: str,
        *,
        command: str = "python train.py",
        grace_seconds: float = 30.0,
        environment: dict[str, str] | None = None,
    ) -> SegmentResult:
        # A third-party import makes a script worth a warm start.
        (self.code / "train.py").write_text("import yaml\n" + textwrap.dedent(script))
        self.runner = ProcessRunner(
            command,
            self.code,
            environment=environment,
            on_line=self._take,
            warm=self.warm,
            kill_seconds=0.2,
        )
        assignment = Assignment(
            study="s", trial=0, segment="a", params={}, metrics=["score"], until_step=1000
        )
        shutil.rmtree(self.workspace.root, ignore_errors=True)
        self.workspace.prepare(assignment)
        agent = Agent(self.workspace, assignment, self.gateway)
        return self.runner.run(self.workspace, agent, grace_seconds=grace_seconds)

    def _take(self, line: str) -> None:
        self.lines.append(line)
        self.on_line(line)


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A private folder with a short path; its nurseries end with the test."""
    folder = Path(tempfile.mkdtemp(prefix="hpo-test-"))
    yield folder
    folder.chmod(0o700)
    WarmStarter(folder).stop()
    shutil.rmtree(folder)


@pytest.fixture(params=["cold", "warm"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, runtime: Path) -> Bench:
    return Bench(tmp_path, WarmStarter(runtime) if request.param == "warm" else None)


@pytest.fixture
def warm_bench(tmp_path: Path, runtime: Path) -> Bench:
    return Bench(tmp_path, WarmStarter(runtime))
