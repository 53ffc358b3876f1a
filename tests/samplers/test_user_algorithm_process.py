"""A user's algorithm as a process: what it is told, what it may use, how it fails."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpo_ops.samplers._user_algorithm_process import (
    Algorithm,
    AlgorithmError,
    AlgorithmExitedError,
    Limits,
)

WALK = """
import random
class Walk:
    def __init__(self, space, seed, step=1):
        self.at, self.step, self.heard = 0, step, []
    def sample_hyperparameter_candidates(self, n):
        print("sampling", n)
        self.at += n * self.step
        return [{"x": self.at + index + random.random()} for index in range(n)]
    def update_state(self, candidates, scores):
        self.heard += zip([one["x"] for one in candidates], scores)
"""


class Lab:
    """Starts algorithms from a folder, and ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Algorithm] = []

    def start(
        self,
        code: str,
        name: str = "Walk",
        *,
        state: str | None = None,
        limits: Limits | None = None,
        **options: Any,
    ) -> Algorithm:
        (self.folder / "theirs.py").write_text(code)
        algorithm = Algorithm(
            f"theirs:{name}", folder=self.folder, seed=7, limits=limits or Limits()
        )
        self.started.append(algorithm)
        space = {"x": {"float": [0, 1]}}
        algorithm.start(space=space, direction="maximize", options=options, state=state)
        return algorithm


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    for algorithm in lab.started:
        algorithm.close()


def test_it_is_made_asked_and_told(lab: Lab) -> None:
    algorithm = lab.start(WALK, step=10)
    first, second = algorithm.sample(2)
    assert 20 < first["x"] < 21 < second["x"] < 22
    algorithm.update([first], [0.5])
    assert 30 < algorithm.sample(1)[0]["x"] < 31


@pytest.mark.parametrize("way", ["object", "get_state"])
def test_a_state_goes_on_where_it_was_taken(lab: Lab, way: str) -> None:
    code = WALK
    if way == "get_state":
        code += (
            "    def get_state(self): return (self.at, self.heard)\n"
            "    def set_state(self, state): self.at, self.heard = state\n"
        )
    algorithm = lab.start(code)
    algorithm.update(algorithm.sample(3), [1.0, 2.0, 3.0])
    state = algorithm.state()
    expected = [algorithm.sample(2) for _ in range(3)]
    again = lab.start(code, state=state)
    assert [again.sample(2) for _ in range(3)] == expected


def test_the_seed_alone_decides_what_is_drawn(lab: Lab) -> None:
    code = (
        "import numpy\n"
        "class Walk:\n"
        "    def __init__(self, seed): pass\n"
        "    def sample_hyperparameter_candidates(self, n):\n"
        "        return [{'x': numpy.random.rand(), 'of': list({'a', 'b', 'c', 'd'})}] * n\n"
        "    def update_state(self, candidates, scores): pass\n"
    )
    one, two = lab.start(code), lab.start(code)
    assert [one.sample(1) for _ in range(3)] == [two.sample(1) for _ in range(3)]
    state = one.state()
    expected = one.sample(1)
    assert lab.start(code, state=state).sample(1) == expected


def test_it_has_no_variables_of_the_platforms(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPO_LEDGER_URL", "postgresql://user:secret@host/ledger")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret")
    algorithm = lab.start(
        "import os\n"
        "class Walk:\n"
        "    def sample_hyperparameter_candidates(self, n):\n"
        "        return [dict(os.environ)]\n"
        "    def update_state(self, candidates, scores): pass\n"
    )
    (environment,) = algorithm.sample(1)
    assert "secret" not in str(environment.values())
    assert not any(name.startswith(("AIRFLOW", "AWS", "HPO_LEDGER")) for name in environment)
    assert environment["PATH"]


SLOW = """
import os, sys, time, ctypes
class Slow:
    def sample_hyperparameter_candidates(self, n):
        time.sleep(60)
    def update_state(self, candidates, scores):
        self.large = bytearray(3 * 2**30)
class Silent(Slow):
    def sample_hyperparameter_candidates(self, n):
        print("out of ideas", file=sys.stderr, flush=True)
        os._exit(3)
class Wrong(Slow):
    def sample_hyperparameter_candidates(self, n):
        return [{"x": object()}]
    def update_state(self, candidates, scores):
        return candidates[7]
class Few(Slow):
    def sample_hyperparameter_candidates(self, n):
        return []
class Lambda(Slow):
    def __init__(self):
        self.rule = lambda x: x
class Half:
    def sample_hyperparameter_candidates(self, n):
        return []
class Leaving(Slow):
    def sample_hyperparameter_candidates(self, n):
        sys.exit("enough")
"""


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        ("Slow", "sample", "took more than 6 s to sample"),
        ("Slow", "update", "could not update: MemoryError"),
        ("Silent", "sample", r"has ended without an answer\nout of ideas"),
        ("Wrong", "sample", "could not sample: TypeError: .* is not a text, number"),
        ("Wrong", "update", r"could not update: IndexError: .*\n.*theirs\.py"),
        ("Few", "sample", "returned 0 candidates, but must return 1"),
        (
            "Lambda",
            "state",
            r"could not save: TypeError: its state cannot be pickled .* get_state\(\)",
        ),
        ("Half", "sample", "could not start: TypeError: Half has no method update_state"),
        ("Nobody", "sample", "could not start: AttributeError"),
        ("Leaving", "sample", "could not sample: SystemExit: enough"),
    ],
)
def test_what_goes_wrong_says_what_and_leaves_no_process(
    lab: Lab, name: str, call: str, message: str
) -> None:
    with pytest.raises(AlgorithmError, match=f"sampler theirs:{name} {message}"):  # noqa: PT012
        algorithm = lab.start(SLOW, name, limits=Limits(call_seconds=6, memory_gib=2))
        {
            "sample": lambda: algorithm.sample(1),
            "update": lambda: algorithm.update([], []),
            "state": algorithm.state,
        }[call]()
    assert not lab.started[0].is_alive


def test_a_large_state_goes_through_the_pipe(lab: Lab) -> None:
    code = WALK + (
        "    def get_state(self): return b'x' * 3_000_000\n    def set_state(self, state): pass\n"
    )
    state = lab.start(code).state()
    assert len(state) > 3_000_000
    lab.start(code, state=state)


def test_one_that_prints_much_is_heard_all_the_same(lab: Lab) -> None:
    algorithm = lab.start(WALK.replace('print("sampling", n)', 'print("x" * 1_000_000)'))
    assert len(algorithm.sample(2)) == 2


def test_a_killed_process_is_noticed(lab: Lab) -> None:
    algorithm = lab.start(WALK)
    assert algorithm.is_alive
    os.kill(algorithm.pid, signal.SIGKILL)
    until = time.monotonic() + 10
    while algorithm.is_alive and time.monotonic() < until:
        time.sleep(0.01)
    assert not algorithm.is_alive
    with pytest.raises(AlgorithmExitedError, match="has ended without an answer"):
        algorithm.sample(1)


def test_its_children_end_with_it(lab: Lab, tmp_path: Path) -> None:
    algorithm = lab.start(
        "import subprocess, sys\n"
        "class Walk:\n"
        "    def sample_hyperparameter_candidates(self, n):\n"
        "        child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])\n"
        "        return [{'pid': child.pid}]\n"
        "    def update_state(self, candidates, scores): pass\n"
    )
    (found,) = algorithm.sample(1)
    algorithm.close()
    until = time.monotonic() + 10
    while time.monotonic() < until and _runs(found["pid"]):
        time.sleep(0.05)
    assert not _runs(found["pid"])


def _runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "limits", [{"call_seconds": 0}, {"call_seconds": 4000}, {"memory_gib": 0.0}]
)
def test_limits_have_limits(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(limits))} is .*, but must be from"):
        Limits(**limits)
