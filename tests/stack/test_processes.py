import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from hpo_ops.stack._processes import (
    STACK_ID,
    STACK_PART,
    ProcessRecord,
    find_marked,
    spawn,
    terminate,
)

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
# Starts a child in a session of its own, says so and goes away.
ORPHAN = [
    sys.executable,
    "-c",
    "import subprocess, sys;"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
    " start_new_session=True)",
]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('deaf', flush=True); time.sleep(60)",
]


def start(
    command: list[str], folder: Path, *, stack_id: str = "s", part: str = "p"
) -> ProcessRecord:
    environment = {**os.environ, STACK_ID: stack_id, STACK_PART: part}
    return spawn(command, environment=environment, cwd=folder, log=folder / "log")


def test_a_process_is_found_again_from_its_pid_file(tmp_path: Path) -> None:
    record = start(SLEEP, tmp_path)
    record.write(tmp_path / "pid.json")

    found = ProcessRecord.read(tmp_path / "pid.json")

    assert found is not None
    process = found.find()
    assert process is not None
    terminate([process], grace_seconds=5)
    assert found.find() is None


def test_a_reused_pid_is_not_taken_for_the_process(tmp_path: Path) -> None:
    other = ProcessRecord(pid=os.getpid(), started=psutil.Process().create_time() - 100)

    assert other.find() is None


def test_a_torn_pid_file_names_no_process(tmp_path: Path) -> None:
    (tmp_path / "pid.json").write_text('{"pid": 1')

    assert ProcessRecord.read(tmp_path / "pid.json") is None
    assert ProcessRecord.read(tmp_path / "missing.json") is None


def test_a_process_has_a_group_of_its_own(tmp_path: Path) -> None:
    record = start(SLEEP, tmp_path)

    assert os.getpgid(record.pid) == record.pid != os.getpgid(0)

    os.killpg(record.pid, signal.SIGKILL)


def test_an_orphan_in_another_session_is_found_by_its_mark(tmp_path: Path) -> None:
    record = start(ORPHAN, tmp_path, stack_id="orphans", part="scheduler")
    assert record.wait() == 0

    left = find_marked("orphans")
    assert len(left) == 1
    assert find_marked("orphans", part="s3") == []
    assert find_marked("orphans", part="scheduler") == left

    terminate(left, grace_seconds=5)
    assert find_marked("orphans") == []


def test_own_ancestors_are_never_found() -> None:
    script = "from hpo_ops.stack._processes import find_marked; print(find_marked('mine'))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, STACK_ID: "mine"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "[]"


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    record = start(DEAF, tmp_path)
    while "deaf" not in (tmp_path / "log").read_text():
        time.sleep(0.02)
    process = record.find()
    assert process is not None

    begun = time.monotonic()
    terminate([process], grace_seconds=0.3)

    assert record.find() is None
    assert time.monotonic() - begun < 5
