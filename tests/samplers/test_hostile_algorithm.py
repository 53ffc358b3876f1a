"""Search algorithms that attack the platform from where they run.

The platform is this process: it has a secret in its environment, a file that only its user may
read, and another process beside it, as the api-server has the scheduler.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpo_ops.samplers._user_algorithm_process import Algorithm, AlgorithmError, Limits

SECRET = "the-secret-of-the-platform"  # noqa: S105
BASE = """
import os, pickle, signal, subprocess, sys, time
from pathlib import Path
class Base:
    def update_state(self, candidates, scores): pass
"""
SPY = (
    BASE
    + """
def attempt(action):
    try:
        return str(action())
    except Exception as error:
        return f"refused: {type(error).__name__}"

def environments():
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            found.append(file.read_bytes().decode(errors="replace"))
        except OSError:
            pass
    return "".join(found)

class Spy(Base):
    def __init__(self, secret_file, victim, outside):
        self.given = secret_file, victim, outside
    def sample_hyperparameter_candidates(self, n):
        secret_file, victim, outside = self.given
        return [{
            "own environment": attempt(lambda: dict(os.environ)),
            "all environments": environments(),
            "memory": attempt(lambda: open(f"/proc/{victim}/mem", "rb").close()),
            "secret file": attempt(lambda: Path(secret_file).read_text()),
            "outside": attempt(lambda: Path(outside).write_text("was here")),
            "code": attempt(lambda: Path(__file__).write_text("was here")),
            "signal": attempt(lambda: os.kill(victim, signal.SIGUSR1)),
            "user": str(os.getuid()),
        }]
"""
)


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of the platform's, with a secret in its environment."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(600)"],
        env={"AIRFLOW_CONN_HPO_GATEWAY": SECRET},
    )
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    return folder


def start(code: Path, text: str, name: str, **options: Any) -> Algorithm:
    (code / "theirs.py").write_text(text)
    algorithm = Algorithm(f"theirs:{name}", folder=code, seed=1, limits=Limits(call_seconds=60))
    try:
        algorithm.start(space={}, direction="maximize", options=options, state=None)
    except BaseException:
        algorithm.close()
        raise
    return algorithm


def spy(code: Path, victim: subprocess.Popen[bytes]) -> dict[str, str]:
    """What an algorithm could find out and do."""
    secret_file = code.parent / "secrets.json"
    secret_file.write_text(SECRET)
    secret_file.chmod(0o600)
    outside = code.parent / "outside"
    algorithm = start(
        code, SPY, "Spy", secret_file=str(secret_file), victim=victim.pid, outside=str(outside)
    )
    try:
        [found] = algorithm.sample(1)
    finally:
        algorithm.close()
    assert not outside.exists()
    assert (code / "theirs.py").read_text() == SPY
    assert victim.poll() is None
    return dict(found)


def has_landlock() -> bool:
    return int(ctypes.CDLL(None).syscall(444, None, 0, 1)) >= 6


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_where_the_platform_is_root_an_algorithm_is_another_user_and_gets_nothing(
    code: Path, victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPO_LEDGER_URL", SECRET)
    found = spy(code, victim)
    assert SECRET not in str(found)
    assert int(found.pop("user")) > 0
    for key in ("memory", "secret file", "outside", "code", "signal"):
        assert found[key].startswith("refused"), (key, found[key])


@pytest.mark.skipif(not has_landlock(), reason="the kernel has no Landlock with signals")
def test_where_the_user_is_the_same_the_kernel_keeps_an_algorithm_in_its_place(
    code: Path, victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPO_LEDGER_URL", SECRET)
    monkeypatch.setenv("HPO_SANDBOX_UID", "0")
    found = spy(code, victim)
    assert SECRET not in str(found)
    assert int(found.pop("user")) == os.geteuid()
    for key in ("memory", "secret file", "outside", "code", "signal"):
        assert found[key].startswith("refused"), (key, found[key])


DAEMON = (
    BASE
    + """
class Daemon(Base):
    def __init__(self, lasting=True):
        pass
    def sample_hyperparameter_candidates(self, n):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if (pid := os.fork()) == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(600)
            os.write(writing, str(pid).encode())
            os._exit(0)
        return [{"pid": int(os.read(reading, 20)), "home": os.environ.get("HOME", "/")}]
"""
)


def test_a_daemon_of_an_algorithm_ends_with_it(code: Path) -> None:
    algorithm = start(code, DAEMON, "Daemon")
    [found] = algorithm.sample(1)
    assert runs(found["pid"])
    algorithm.close()
    assert ends(found["pid"])


def test_an_algorithm_and_its_daemon_do_not_outlive_a_platform_that_is_killed(
    code: Path,
) -> None:
    (code / "theirs.py").write_text(DAEMON)
    platform = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from pathlib import Path\n"
            "from hpo_ops.samplers._user_algorithm_process import Algorithm, Limits\n"
            "code = Path(sys.argv[1])\n"
            "one = Algorithm('theirs:Daemon', folder=code, seed=1, limits=Limits())\n"
            "one.start(space={}, direction='maximize', options={}, state=None)\n"
            "found = one.sample(1)[0]\n"
            "print(found['pid'], found['home'], flush=True)\n"
            "time.sleep(600)\n",
            str(code),
        ],
        stdout=subprocess.PIPE,
    )
    assert platform.stdout is not None
    words = platform.stdout.readline().decode().split()
    pid, home = int(words[0]), Path(words[1])
    assert runs(pid)
    assert home.exists()
    platform.kill()
    platform.wait()
    platform.stdout.close()
    assert ends(pid)
    until = time.monotonic() + 20
    while home.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not home.exists()


def runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def ends(pid: int) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until and runs(pid):
        time.sleep(0.05)
    if not runs(pid):
        return True
    os.kill(pid, signal.SIGKILL)
    return False


LIAR = (
    BASE
    + """
class Boom:
    def __reduce__(self):
        return (open, (TARGET, "w"))

class Liar(Base):
    def __init__(self, answer, target):
        global TARGET
        TARGET, self.answer = target, answer
    def sample_hyperparameter_candidates(self, n):
        given = {
            "pickle": pickle.dumps(Boom()),
            "list": b'["value"]',
            "text": b'{"value": "candidates"}',
            "deep": b"[" * 100_000,
            "number": b"1" * 100_000,
            "error": b'{"error": {"a": 1}, "trace": 7}',
        }[self.answer]
        for descriptor in range(3, 12):
            try:
                os.write(descriptor, given + b"\\n")
            except OSError:
                pass
        time.sleep(60)
"""
)


@pytest.mark.parametrize("answer", ["pickle", "list", "text", "deep", "number", "error"])
def test_an_answer_that_is_no_answer_ends_the_algorithm_and_runs_nothing(
    code: Path, answer: str
) -> None:
    target = code / "unpickled"
    algorithm = start(code, LIAR, "Liar", answer=answer, target=str(target))
    with pytest.raises(AlgorithmError):
        algorithm.sample(1)
    assert not algorithm.is_alive
    assert not target.exists()
