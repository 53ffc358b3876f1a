"""Asking and telling on a real PostgreSQL, and what Optuna itself sees of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import BaseStorage, InMemoryStorage

from hpo_ops.core import Direction, TrialState
from hpo_ops.core.search_space import Categorical, Float, Int, Space
from hpo_ops.samplers._draft_trial import Draft
from hpo_ops.samplers.optuna_search import MAX_INTERMEDIATE_VALUES, Search
from hpo_ops.samplers.optuna_storage import open_storage

SPACE = Space(
    {
        "lr": Float(low=1e-4, high=1e-1, log=True),
        "width": Int(low=4, high=64, step=4),
        "optimizer": Categorical(choices=("adam", "sgd", None)),
        "momentum": Float(low=0.0, high=0.99, when={"optimizer": ("sgd",)}),
        "nesterov": Categorical(choices=(True, False), when={"momentum": (0.0,)}),
        "beta": Float(low=0.5, high=0.99, step=0.01, when={"optimizer": ("adam", "sgd")}),
    }
)


@pytest.fixture
def storage(database: str) -> Iterator[BaseStorage]:
    storage = open_storage(database)
    yield storage
    storage.remove_session()


def search(storage: BaseStorage, name: str = "small/run-1", **changes: Any) -> Search:
    arguments: dict[str, Any] = {
        "space": SPACE,
        "directions": [Direction.MAXIMIZE],
        "sampler": "random",
        "options": {},
        "seed": 7,
        **changes,
    }
    return Search(storage=storage, name=name, **arguments)


def test_asking_again_gives_the_same_answer(storage: BaseStorage) -> None:
    first = search(storage)
    asked = [first.ask(number) for number in range(4)]
    again = search(storage)  # as another process would
    assert [again.ask(number) for number in range(4)] == asked
    first.tell(1, TrialState.COMPLETED, values=[0.5])
    assert again.ask(1) == asked[1]
    assert len(storage.get_all_trials(storage.get_study_id_from_name("small/run-1"))) == 4


@pytest.mark.parametrize("sampler", ["random", "tpe", "reinforce"])
def test_an_ask_that_is_cut_short_leaves_nothing_and_is_made_again(
    storage: BaseStorage, database: str, sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [search(storage, "whole", sampler=sampler).ask(number) for number in range(2)]
    begun = search(storage, sampler=sampler)
    begun.ask(0)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Draft, "write", die)
        with pytest.raises(KeyboardInterrupt):
            begun.ask(1)
    assert [trial.number for trial in begun.open().trials] == [0]
    fresh = open_storage(database)
    assert [search(fresh, sampler=sampler).ask(number) for number in (1, 0)] == whole[::-1]
    fresh.remove_session()


def test_who_adds_trials_beside_us_is_found_out(storage: BaseStorage) -> None:
    asking = search(storage)
    asking.ask(0)
    asking.open().ask()
    with pytest.raises(RuntimeError, match="trial 1 of small/run-1 has nothing in Optuna"):
        asking.ask(1)


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_the_seed_alone_determines_what_is_proposed(storage: BaseStorage, sampler: str) -> None:
    def run(name: str, seed: int) -> list[dict[str, Any]]:
        asking = search(storage, name, sampler=sampler, seed=seed)
        asked = []
        for number in range(12):
            asked.append(asking.ask(number))
            asking.tell(number, TrialState.COMPLETED, values=[float(asked[-1]["width"] or 0)])
        return asked

    one = run("one", seed=1)
    assert run("two", seed=1) == one
    assert run("three", seed=2) != one
    assert len({params["lr"] for params in one}) == 12


def test_random_draws_do_not_depend_on_the_order_of_asks(storage: BaseStorage) -> None:
    ahead = search(storage, "ahead")
    behind = search(storage, "behind")
    in_order = {number: ahead.ask(number) for number in (0, 1, 2, 3)}
    assert {number: behind.ask(number) for number in (2, 0, 3, 1)} == in_order


def test_trial_numbers_are_optunas(storage: BaseStorage, database: str) -> None:
    asking = search(storage)
    asked = {number: asking.ask(number) for number in (0, 2, 1)}
    for number in range(3):
        asking.tell(number, TrialState.COMPLETED, values=[float(number)])
    seen = optuna.load_study(study_name="small/run-1", storage=database)
    assert [trial.number for trial in seen.trials] == [0, 1, 2]
    for trial in seen.trials:
        assert trial.params == asked[trial.number]
        assert trial.value == trial.number
    assert seen.best_trial.number == 2
    assert seen.direction is optuna.study.StudyDirection.MAXIMIZE


def test_a_parameter_exists_only_where_its_condition_holds(storage: BaseStorage) -> None:
    asking = search(storage)
    proposals = [asking.ask(number) for number in range(30)]
    assert {params["optimizer"] for params in proposals} == {"adam", "sgd", None}
    for params in proposals:
        assert ("momentum" in params) == (params["optimizer"] == "sgd")
        assert ("beta" in params) == (params["optimizer"] is not None)
        assert "nesterov" not in params or params["momentum"] == 0.0


def test_proposals_stay_in_the_space_and_keep_their_types(storage: BaseStorage) -> None:
    asking = search(storage)
    for number in range(20):
        params = asking.ask(number)
        assert isinstance(params["lr"], float)
        assert 1e-4 <= params["lr"] <= 1e-1
        assert type(params["width"]) is int
        assert params["width"] in range(4, 65, 4)
        assert list(params) == [name for name in SPACE if name in params]


def test_telling_twice_counts_once(storage: BaseStorage, database: str) -> None:
    asking = search(storage)
    asking.ask(0)
    asking.tell(0, TrialState.COMPLETED, values=[0.5], curve=[(1, 0.4), (2, 0.5)])
    asking.tell(0, TrialState.COMPLETED, values=[0.9])
    asking.tell(0, TrialState.FAILED, values=None)
    (trial,) = optuna.load_study(study_name="small/run-1", storage=database).trials
    assert trial.state is optuna.trial.TrialState.COMPLETE
    assert trial.value == 0.5
    assert trial.intermediate_values == {1: 0.4, 2: 0.5}


@pytest.mark.parametrize(
    ("state", "name"), [(TrialState.PRUNED, "PRUNED"), (TrialState.FAILED, "FAIL")]
)
def test_a_trial_that_did_not_complete_keeps_its_curve(
    storage: BaseStorage, database: str, state: TrialState, name: str
) -> None:
    asking = search(storage)
    asking.ask(0)
    asking.tell(0, state, values=[0.4], curve=[(1, 0.3), (3, 0.4)])
    (trial,) = optuna.load_study(study_name="small/run-1", storage=database).trials
    assert trial.state.name == name
    assert trial.intermediate_values == {1: 0.3, 3: 0.4}


def test_a_trial_without_a_report_can_be_told(storage: BaseStorage, database: str) -> None:
    asking = search(storage)
    for number, state in enumerate((TrialState.PRUNED, TrialState.FAILED)):
        asking.ask(number)
        asking.tell(number, state, values=None)
    seen = optuna.load_study(study_name="small/run-1", storage=database).trials
    assert [trial.state.name for trial in seen] == ["PRUNED", "FAIL"]


def test_a_long_curve_is_thinned_but_keeps_its_ends(storage: BaseStorage, database: str) -> None:
    asking = search(storage)
    asking.ask(0)
    curve = [(step, step / 10_000) for step in range(1, 10_001)]
    asking.tell(0, TrialState.COMPLETED, values=[1.0], curve=curve)
    (trial,) = optuna.load_study(study_name="small/run-1", storage=database).trials
    steps = sorted(trial.intermediate_values)
    assert len(steps) == MAX_INTERMEDIATE_VALUES
    assert (steps[0], steps[-1]) == (1, 10_000)
    gaps = [after - before for before, after in pairwise(steps)]
    assert max(gaps) - min(gaps) <= 1
    assert trial.intermediate_values[10_000] == 1.0


def test_two_studies_of_one_database_know_nothing_of_each_other(storage: BaseStorage) -> None:
    one, two = search(storage, "one"), search(storage, "two", seed=8)
    assert one.ask(0) != two.ask(0)
    one.tell(0, TrialState.COMPLETED, values=[1.0])
    assert not storage.get_all_trials(storage.get_study_id_from_name("two"))[0].state.is_finished()


def test_an_optuna_sampler_is_taken_by_its_class(storage: BaseStorage) -> None:
    asking = search(
        storage,
        space=Space({"x": Float(low=0, high=1)}),
        sampler="optuna.samplers:QMCSampler",
        options={"scramble": True},
    )
    assert 0 <= float(asking.ask(0)["x"] or 0) <= 1


def test_a_sampler_that_the_operator_allows_is_taken_by_its_class(
    storage: BaseStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_sampler.py").write_text(
        "from optuna.samplers import RandomSampler\n"
        "class Middle(RandomSampler):\n"
        "    def __init__(self, at: float = 0.5):\n"
        "        super().__init__()\n"
        "        self.at = at\n"
        "    def sample_independent(self, study, trial, name, distribution):\n"
        "        return distribution.low + self.at * (distribution.high - distribution.low)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HPO_ALLOWED_CLASSES", "their_sampler:Middle")
    asking = search(
        storage,
        space=Space({"x": Float(low=0, high=8)}),
        sampler="their_sampler:Middle",
        options={"at": 0.25},
    )
    assert asking.ask(0) == {"x": 2.0}


def test_tpe_concentrates_where_random_does_not() -> None:
    storage = InMemoryStorage()
    space = Space({"x": Float(low=-10, high=10), "y": Float(low=-10, high=10)})

    def distance(sampler: str) -> float:
        """Mean distance to the optimum of the last proposals."""
        asking = search(
            storage, sampler, space=space, sampler=sampler, directions=[Direction.MINIMIZE], seed=3
        )
        seen = []
        for number in range(40):
            params = asking.ask(number)
            x, y = float(params["x"] or 0), float(params["y"] or 0)
            seen.append((x - 3) ** 2 + (y + 2) ** 2)
            asking.tell(number, TrialState.COMPLETED, values=[seen[-1]])
        return sum(seen[-15:]) / 15

    assert distance("tpe") < distance("random") / 2
