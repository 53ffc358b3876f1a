"""One real stack, through its life: the tests run in the order in which they are written."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import psycopg2
import pytest

from hpo_ops.stack import Part, PartFailedError, Phase, Stack, StackError, Update
from hpo_ops.stack._processes import STACK_ID
from tests.stack.airflow_options import unknown_options

pytestmark = pytest.mark.e2e


def a_folder() -> Path:
    """Not pytest's: another run of pytest as root would close that to PostgreSQL's user."""
    return Path(tempfile.mkdtemp(prefix="hpo-stack-"))


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    folder = a_folder()
    (folder / "dags").mkdir()
    # A path that is too long for a unix socket.
    root = folder / ("long-" * 20) / ".hpo"
    made = Stack(root, dags=folder / "dags", port=0, s3_port=0, hang_seconds=5)
    with made:
        yield made
    assert made.processes() == []
    shutil.rmtree(folder, ignore_errors=True)


def pids(stack: Stack) -> dict[Part, int | None]:
    return {status.part: status.pid for status in stack.status()}


def test_every_part_is_healthy(stack: Stack) -> None:
    assert [status.part for status in stack.status() if status.is_healthy] == list(Part)
    assert stack.is_healthy()


def test_nothing_listens_off_loopback(stack: Stack) -> None:
    addresses = {
        connection.laddr.ip
        for process in stack.processes()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }

    assert addresses == {"127.0.0.1"}


def test_the_password_opens_the_api_and_a_wrong_one_does_not(stack: Stack) -> None:
    def login(password: str) -> int:
        body = {"username": stack.username, "password": password}
        return httpx.post(f"{stack.url}/auth/token", json=body, trust_env=False).status_code

    assert login(stack.password) == 201
    assert login("wrong") == 401


def test_files_with_secrets_are_private(stack: Stack) -> None:
    for name in ("stack.json", "secrets.json", "passwords.json"):
        assert stat.S_IMODE((stack.root / name).stat().st_mode) == 0o600


def test_only_the_api_server_gets_the_ledger(stack: Stack) -> None:
    with_ledger = {
        status.part
        for status in stack.status()
        if status.pid and "HPO_LEDGER_URL" in psutil.Process(status.pid).environ()
    }

    assert with_ledger == {Part.API_SERVER}
    assert "HPO_LEDGER_URL" not in stack.environment()
    assert "HPO_GATEWAY_KEYS" not in stack.environment()
    assert stack.gateway_keys.first.secret not in str(stack.environment())
    assert STACK_ID not in stack.environment()


def test_airflow_cannot_enter_the_ledger_nor_anyone_without_a_password(stack: Stack) -> None:
    url = stack.ledger_url.replace("postgresql+psycopg2://", "postgresql://")
    psycopg2.connect(url).close()
    airflow = stack.environment()["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    airflow = airflow.replace("postgresql+psycopg2://", "postgresql://")

    with pytest.raises(psycopg2.OperationalError, match="permission denied"):
        psycopg2.connect(airflow.replace("/airflow?", "/hpo?"))
    with pytest.raises(psycopg2.OperationalError, match="password"):
        psycopg2.connect(url.replace("://hpo:", "://postgres:wrong"))


def test_airflow_knows_every_option_that_is_set(stack: Stack) -> None:
    assert unknown_options(stack.environment()) == []


def test_airflow_commands_run_against_the_stack(stack: Stack) -> None:
    done = stack.airflow("connections", "get", "hpo_s3", "-o", "json")

    assert done.returncode == 0, done.stderr
    assert stack.object_store.endpoint in done.stdout


def test_starting_again_changes_nothing(stack: Stack) -> None:
    before, updates = pids(stack), list[Update]()

    begun = time.monotonic()
    Stack.at(stack.root).start(updates.append)

    assert time.monotonic() - begun < 5
    assert {update.phase for update in updates} == {Phase.ALREADY_RUNNING}
    assert pids(stack) == before


@pytest.mark.parametrize("part", [Part.TRIGGERER, Part.S3])
def test_a_killed_part_is_started_again_and_the_others_are_left_alone(
    stack: Stack, part: Part
) -> None:
    before = pids(stack)
    stack.kill(part)
    assert pids(stack)[part] is None
    with pytest.raises(StackError, match="not running"):
        stack.kill(part)

    stack.start()

    after = pids(stack)
    assert after[part] not in (None, before[part])
    assert after | {part: None} == before | {part: None}
    assert stack.is_healthy()


def test_parts_that_hang_are_replaced_and_the_others_are_left_alone(stack: Stack) -> None:
    hung = {Part.SCHEDULER, Part.S3}
    before, updates = pids(stack), list[Update]()
    for part in hung:
        psutil.Process(before[part]).suspend()

    stack.start(updates.append)

    after = pids(stack)
    assert {part for part in Part if after[part] != before[part]} == hung
    replaced = {update.part for update in updates if update.phase is Phase.REPLACING}
    assert replaced == hung
    assert stack.is_healthy()


def test_a_database_that_hangs_is_replaced(stack: Stack) -> None:
    before = pids(stack)
    main = psutil.Process(before[Part.POSTGRES])
    for process in [main, *main.children()]:
        process.suspend()

    stack.start()

    assert pids(stack)[Part.POSTGRES] not in (None, before[Part.POSTGRES])
    assert pids(stack)[Part.S3] == before[Part.S3]
    assert stack.is_healthy()


def test_a_killed_database_is_started_again_with_what_it_took_along(stack: Stack) -> None:
    before = pids(stack)
    stack.kill(Part.POSTGRES)

    stack.start()

    after = pids(stack)
    assert after[Part.POSTGRES] not in (None, before[Part.POSTGRES])
    assert after[Part.S3] == before[Part.S3]
    assert stack.is_healthy()
    time.sleep(6)  # a heartbeat later
    assert pids(stack) == after


def test_a_killed_scheduler_leaves_no_workers_behind(stack: Stack) -> None:
    status = {status.part: status for status in stack.status()}[Part.SCHEDULER]
    workers = psutil.Process(status.pid).children(recursive=True)
    assert workers

    stack.kill(Part.SCHEDULER)
    stack.start()

    assert not [worker for worker in workers if worker.is_running()]


def test_stop_leaves_no_process_and_the_next_start_keeps_everything(stack: Stack) -> None:
    stack.object_store.store().put("kept", b"here")
    password, url = stack.password, stack.url

    stack.stop()

    assert stack.processes() == []
    assert not any(status.is_running for status in stack.status())

    again, updates = Stack.at(stack.root), list[Update]()
    again.start(updates.append)

    assert Phase.MIGRATING not in {update.phase for update in updates}
    assert (again.password, again.url) == (password, url)
    assert bytes(again.object_store.store().get("kept").bytes()) == b"here"


class Foreground:
    """`hpo up --foreground` on a stack, as a process."""

    def __init__(self, stack: Stack) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hpo_ops.stack", "up", "--foreground", "--root", stack.root],
            start_new_session=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.wait_for("supervising")

    def wait_for(self, words: str) -> None:
        assert self.process.stdout is not None
        while words not in self.process.stdout.readline():
            assert self.process.poll() is None


def wait_until(question: Callable[[], bool], seconds: float = 120.0) -> None:
    give_up_at = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < give_up_at, "waited in vain"
        time.sleep(0.2)


def test_the_supervisor_starts_again_what_dies_or_hangs_until_it_is_interrupted(
    stack: Stack,
) -> None:
    before = pids(stack)
    first = Foreground(stack)
    stack.kill(Part.TRIGGERER)
    psutil.Process(before[Part.DAG_PROCESSOR]).suspend()
    first.wait_for("triggerer: its process exited")
    first.wait_for("dag-processor: its process exited")
    wait_until(stack.is_healthy)
    after = pids(stack)
    changed = {part for part in Part if after[part] != before[part]}
    assert changed == {Part.TRIGGERER, Part.DAG_PROCESSOR}

    # Without its supervisor the stack goes on; the next one takes over.
    first.process.kill()
    first.process.wait()
    assert pids(stack) == after
    second = Foreground(stack)
    assert pids(stack) == after

    os.killpg(second.process.pid, signal.SIGINT)
    assert second.process.wait(180) == 0
    assert stack.processes() == []


def test_a_failed_start_names_the_part_and_leaves_the_others_alone(tmp_path: Path) -> None:
    broken = Stack(
        tmp_path / ".hpo",
        port=0,
        s3_port=0,
        extra_environment={"AIRFLOW__TRIGGERER__CAPACITY": "none"},
    )

    try:
        with pytest.raises(PartFailedError) as failure:
            broken.start()

        assert failure.value.part is Part.TRIGGERER
        assert str(failure.value.log) in str(failure.value)
        assert len(str(failure.value).splitlines()) > 3
        healthy = {status.part for status in broken.status() if status.is_healthy}
        assert healthy == set(Part) - {Part.TRIGGERER}
        assert pids(broken)[Part.TRIGGERER] is None
    finally:
        broken.stop()
    assert broken.processes() == []


@pytest.mark.parametrize(
    ("number", "moment"),
    [(signal.SIGINT, "triggerer: starting"), (signal.SIGTERM, "postgres: starting")],
)
def test_an_interrupted_start_leaves_nothing_behind(number: signal.Signals, moment: str) -> None:
    folder = a_folder()
    root = folder / ".hpo"
    command = [sys.executable, "-m", "hpo_ops.stack", "up", "--root", str(root), "--port", "0"]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        while not child.stdout.readline().startswith(moment):
            assert child.poll() is None
        time.sleep(0.3)

        # As a terminal does: to the whole foreground group.
        os.killpg(child.pid, number)

        # By itself or by the signal: a shell says the same of both.
        assert child.wait(180) in (128 + number, -number)
    assert Stack(root).processes() == []
    shutil.rmtree(folder, ignore_errors=True)
