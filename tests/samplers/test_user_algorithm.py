"""A user's algorithm as a sampler: nothing lost, nothing doubled, whoever is killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from optuna.storages import BaseStorage, InMemoryStorage

from hpo_ops.core import Direction, TrialState
from hpo_ops.core.search_space import Categorical, Float, Int, Space
from hpo_ops.samplers import user_algorithm
from hpo_ops.samplers._user_algorithm_process import AlgorithmError
from hpo_ops.samplers.optuna_search import Search
from hpo_ops.samplers.optuna_storage import open_storage
from hpo_ops.samplers.user_algorithm import JOURNAL, Journal, close_processes

LEDGER = """
import os, random
class Ledger:
    '''Numbers its candidates, and says in each how many scores it has heard of and their sum.'''
    def __init__(self, space, direction, seed):
        self.next, self.heard, self.total = 0, 0, 0.0
        self.space, self.direction = space, direction
    def sample_hyperparameter_candidates(self, n):
        found = []
        for _ in range(n):
            found.append({
                "number": self.next, "heard": self.heard, "total": self.total,
                "luck": random.random(),
            })
            self.next += 1
        return found
    def update_state(self, candidates, scores):
        assert len(candidates) == len(scores) and all("luck" in one for one in candidates)
        self.heard += len(scores)
        self.total += sum(scores)
"""
SPACE = Space(
    {
        "number": Int(low=0, high=1000),
        "heard": Int(low=0, high=1000),
        "total": Float(low=0, high=1e6),
        "luck": Float(low=0, high=1),
    }
)


@pytest.fixture(autouse=True)
def _end_processes() -> Iterator[None]:
    yield
    close_processes()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "theirs.py").write_text(LEDGER)
    return tmp_path


def search(storage: BaseStorage, code: Path, name: str = "study", **changes: Any) -> Search:
    arguments: dict[str, Any] = {
        "space": SPACE,
        "directions": [Direction.MAXIMIZE],
        "sampler": "theirs:Ledger",
        "options": {},
        "seed": 7,
        "code": str(code),
        **changes,
    }
    return Search(storage=storage, name=name, **arguments)


def story(asking: Search, count: int = 6, start: int = 0) -> list[dict[str, Any]]:
    """Asks for trials and tells of each before the next; trial n is worth n."""
    found = []
    for number in range(start, count):
        found.append(asking.ask(number))
        asking.tell(number, TrialState.COMPLETED, values=[float(number)])
    return found


def note_starts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the id of each process that is started."""
    started: list[int] = []
    start = user_algorithm.UserAlgorithmSampler._start

    def note(*arguments: Any) -> Any:
        algorithm = start(*arguments)
        started.append(algorithm.pid)
        return algorithm

    monkeypatch.setattr(user_algorithm.UserAlgorithmSampler, "_start", note)
    return started


def test_each_score_is_told_before_the_next_ask(code: Path) -> None:
    found = story(search(InMemoryStorage(), code))
    assert [params["number"] for params in found] == list(range(6))
    assert [params["heard"] for params in found] == list(range(6))
    assert [params["total"] for params in found] == [0, 0, 1, 3, 6, 10]


def test_the_seed_decides(code: Path) -> None:
    one = story(search(InMemoryStorage(), code))
    assert story(search(InMemoryStorage(), code)) == one
    assert story(search(InMemoryStorage(), code, seed=8)) != one


def test_a_round_is_drawn_at_once_and_told_at_once(code: Path) -> None:
    asking = search(InMemoryStorage(), code, options={"batch": 3})
    first = [asking.ask(number) for number in range(3)]
    for number in range(3):
        asking.tell(number, TrialState.COMPLETED, values=[1.0])
    second = [asking.ask(number) for number in range(3, 6)]
    assert [params["heard"] for params in first + second] == [0, 0, 0, 3, 3, 3]
    assert [params["number"] for params in first + second] == list(range(6))


def test_pruned_trials_tell_their_best_and_failed_ones_nothing(code: Path) -> None:
    asking = search(InMemoryStorage(), code)
    for number in range(4):
        asking.ask(number)
    asking.tell(0, TrialState.PRUNED, values=None, curve=[(1, 5.0), (2, 9.0), (3, 7.0)])
    asking.tell(1, TrialState.FAILED, values=None, curve=[(1, 5.0)])
    asking.tell(2, TrialState.PRUNED, values=None)
    found = asking.ask(4)
    assert (found["heard"], found["total"]) == (1, 9.0)
    asking.tell(3, TrialState.COMPLETED, values=[1.0])
    assert asking.ask(5)["heard"] == 2


def test_a_killed_algorithm_goes_on_where_it_was(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = story(search(InMemoryStorage(), code))
    started = note_starts(monkeypatch)
    asking = search(InMemoryStorage(), code)
    found = []
    for number in range(6):
        found += story(asking, number + 1, number)
        [process] = psutil.Process(started[-1]).children()
        process.kill()
        if number % 2:
            time.sleep(0.2)  # it is seen to be dead, or only when it is called
    assert found == whole
    assert len(started) == 6


def test_a_process_is_kept_between_asks(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = note_starts(monkeypatch)
    storage = InMemoryStorage()
    story(search(storage, code))
    story(search(storage, code), 9, 6)
    assert len(started) == 1


@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
def test_an_ask_that_crashed_beside_the_journal_is_asked_again(
    code: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    whole = story(search(InMemoryStorage(), code))
    storage = InMemoryStorage()
    asking = search(storage, code)
    found = story(asking, 3)
    write = storage.set_study_system_attr

    def crash(study_id: int, key: str, value: Any) -> None:
        if is_written:
            write(study_id, key, value)
        raise OSError("the database is gone")

    monkeypatch.setattr(storage, "set_study_system_attr", crash)
    with pytest.raises(OSError, match="the database is gone"):
        asking.ask(3)
    monkeypatch.undo()
    assert found + story(asking, 6, 3) == whole


RUNNER = """
import sys, time
from pathlib import Path
from hpo_ops.core import Direction, TrialState
from hpo_ops.samplers.optuna_storage import open_storage
from tests.samplers.test_user_algorithm import search
asking = search(open_storage(sys.argv[1]), Path(sys.argv[2]), options={"batch": 2})
for number in range(int(sys.argv[3])):
    params = asking.ask(number)
    print(number, flush=True)
    asking.tell(number, TrialState.COMPLETED, values=[float(number)])
"""


def test_killing_whoever_asks_loses_and_doubles_nothing(database: str, code: Path) -> None:
    """SIGKILL at odd moments to the process that asks, on a real database."""
    count, chance = 16, random.Random(3)  # noqa: S311  for moments
    whole = search(InMemoryStorage(), code, options={"batch": 2})
    expected = story(whole, count)
    open_storage(database).remove_session()
    kills = 0
    while True:
        process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, database, str(code), str(count)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        process.stdout.readline()
        if kills < 6:
            time.sleep(chance.uniform(0, 0.4))
            process.kill()
            kills += 1
        _, errors = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, errors
    storage = open_storage(database)
    trials = storage.get_all_trials(storage.get_study_id_from_name("study"))
    assert [trial.params for trial in trials] == expected
    assert [trial.params["number"] for trial in trials] == list(range(count))
    storage.remove_session()


CONDITIONAL = Space(
    {
        "optimizer": Categorical(choices=("adam", "sgd")),
        "momentum": Float(low=0, high=1, when={"optimizer": ("sgd",)}),
    }
)


def test_what_does_not_exist_for_a_candidate_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(
        "class Fixed:\n"
        "    def sample_hyperparameter_candidates(self, n):\n"
        "        return [{'optimizer': 'adam', 'momentum': 0.5}] * n\n"
        "    def update_state(self, candidates, scores): pass\n"
    )
    asking = search(InMemoryStorage(), tmp_path, space=CONDITIONAL, sampler="theirs:Fixed")
    assert asking.ask(0) == {"optimizer": "adam"}


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        ({"optimizer": "sgd"}, "momentum is missing"),
        ({"optimizer": "lbfgs"}, "optimizer is 'lbfgs', but must be one of adam, sgd"),
        ({"optimizer": "adam", "lr": 1}, "lr is no parameter of the space"),
        ([1], r"returned \[1\], but a candidate must be a mapping"),
    ],
)
def test_a_candidate_outside_of_the_space_is_refused(
    tmp_path: Path, candidate: object, message: str
) -> None:
    (tmp_path / "theirs.py").write_text(
        "class Fixed:\n"
        f"    def sample_hyperparameter_candidates(self, n): return [{candidate!r}] * n\n"
        "    def update_state(self, candidates, scores): pass\n"
    )
    storage = InMemoryStorage()
    asking = search(storage, tmp_path, space=CONDITIONAL, sampler="theirs:Fixed")
    with pytest.raises(AlgorithmError, match=message):
        asking.ask(0)
    assert JOURNAL not in storage.get_study_system_attrs(storage.get_study_id_from_name("study"))


def test_an_installed_algorithm_needs_no_folder(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code.chmod(0o755)  # installed for every user of the machine
    monkeypatch.syspath_prepend(str(code))
    monkeypatch.setenv("PYTHONPATH", str(code))
    found = story(search(InMemoryStorage(), Path()), 3)  # a folder that is not looked at
    assert [params["heard"] for params in found] == [0, 1, 2]


def test_a_journal_knows_whom_it_was_told_of() -> None:
    journal = Journal()
    for number in (2, 0, 5, 1):
        journal.tell(number)
    assert [number for number in range(8) if journal.knows(number)] == [0, 1, 2, 5]
    assert (journal.told_below, journal.told) == (3, [5])
