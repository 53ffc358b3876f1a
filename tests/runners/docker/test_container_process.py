"""A training in a real container, seen from the task that runs its segment."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from hpo_ops.runners.docker._container_process import ContainerProcess
from hpo_ops.runners.docker._engine_api import DockerEngine, DockerUnreachableError
from tests.docker_engine import IMAGE

Start = Callable[..., ContainerProcess]


@pytest.fixture
def start(engine: DockerEngine, tmp_path: Path) -> Iterator[Start]:
    """Starts a Python script in a container whose output goes to the file log.txt."""
    started = []

    def start(script: str, **changes: object) -> ContainerProcess:
        host: Mapping[str, object] = {"NetworkMode": "none", "Init": True}
        spec = {"Image": IMAGE, "Cmd": ["python", "-uc", script], "HostConfig": host, **changes}
        log = (tmp_path / "log.txt").open("ab")
        started.append(ContainerProcess(engine, spec, name=f"test-{len(started)}", log=log))
        return started[-1]

    yield start
    for process in started:
        process.close()


def ends_within(process: ContainerProcess, seconds: float = 30) -> int | None:
    return process.wait(seconds)


def wait_for_log(log: Path, text: str) -> None:
    give_up_at = time.monotonic() + 30
    while text not in log.read_text():
        assert time.monotonic() < give_up_at, log.read_text()
        time.sleep(0.05)


@pytest.mark.e2e
def test_the_log_is_complete_when_the_exit_code_is_known(start: Start, tmp_path: Path) -> None:
    process = start("print('x' * 100_000); print('last'); raise SystemExit(4)")
    assert ends_within(process) == 4
    assert (tmp_path / "log.txt").read_text() == "x" * 100_000 + "\nlast\n"


@pytest.mark.e2e
def test_closing_removes_a_container_that_still_runs(
    start: Start, engine: DockerEngine, tmp_path: Path
) -> None:
    process = start("import time; print('ready'); time.sleep(60)")
    wait_for_log(tmp_path / "log.txt", "ready")
    assert process.wait(0) is None
    process.close()
    assert engine.list_containers({}) == []
    assert ends_within(process) in (137, -9)


@pytest.mark.e2e
def test_a_training_that_ignores_sigterm_is_killed(start: Start, tmp_path: Path) -> None:
    process = start(
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('stays'))\n"
        "print('ready')\n"
        "while True: time.sleep(1)"
    )
    wait_for_log(tmp_path / "log.txt", "ready")
    process.terminate()
    wait_for_log(tmp_path / "log.txt", "stays")
    process.kill()
    assert ends_within(process) == 137
    assert not process.is_out_of_memory


@pytest.mark.e2e
def test_a_training_without_a_handler_ends_by_sigterm(start: Start, tmp_path: Path) -> None:
    process = start("import time; print('ready'); time.sleep(60)")
    wait_for_log(tmp_path / "log.txt", "ready")
    process.terminate()
    assert ends_within(process) == 143


@pytest.mark.e2e
def test_a_container_that_cannot_be_started_says_why_in_the_log(
    start: Start, engine: DockerEngine, tmp_path: Path
) -> None:
    mount = {"Type": "bind", "Source": "/no/such/folder", "Target": "/x"}
    process = start("pass", HostConfig={"NetworkMode": "none", "Mounts": [mount]})
    assert process.wait(0) == 127
    assert "bind source path does not exist: /no/such/folder" in (tmp_path / "log.txt").read_text()
    process.close()
    assert engine.list_containers({}) == []


@pytest.mark.e2e
def test_an_image_that_cannot_be_pulled_says_so_in_the_log(start: Start, tmp_path: Path) -> None:
    process = start("pass", Image="localhost:1/none:1")
    assert process.wait(0) == 127
    assert "the image localhost:1/none:1" in (tmp_path / "log.txt").read_text()


def test_an_engine_that_does_not_answer_is_no_failure_of_the_training(tmp_path: Path) -> None:
    engine = DockerEngine(f"unix://{tmp_path}/nothing")
    log = (tmp_path / "log.txt").open("ab")
    with pytest.raises(DockerUnreachableError):
        ContainerProcess(engine, {"Image": IMAGE}, name="never", log=log)
    assert log.closed
    shutil.rmtree(tmp_path)
