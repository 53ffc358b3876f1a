"""Trials of one study before those of another, and parameters to try first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import BaseStorage, InMemoryStorage

from hpo_ops.core import Direction, TrialState
from hpo_ops.core.search_space import Categorical, Float, Space
from hpo_ops.samplers import warm_start_trials
from hpo_ops.samplers.optuna_search import Search

SPACE = Space(
    {
        "x": Float(low=0, high=1),
        "kind": Categorical(choices=("a", "b")),
        "y": Float(low=0, high=1, when={"kind": ("b",)}),
    }
)
OLD: list[tuple[dict[str, Any], float]] = [
    ({"x": 0.1, "kind": "a"}, 1.0),
    ({"x": 0.2, "kind": "b", "y": 0.5}, 2.0),
    ({"x": 3.0, "kind": "a"}, 3.0),
    ({"x": 0.3, "kind": "b"}, 4.0),
    ({"x": 0.4, "kind": "a", "z": 1.0}, 5.0),
    ({"x": 0.5, "kind": "a"}, 6.0),
]


def search(storage: BaseStorage, **changes: Any) -> Search:
    arguments: dict[str, Any] = {
        "name": "new",
        "space": SPACE,
        "directions": [Direction.MAXIMIZE],
        "sampler": "random",
        "options": {},
        "seed": 7,
        "is_warm": True,
        **changes,
    }
    return Search(storage=storage, **arguments)


def old_study(storage: Any = None) -> warm_start_trials.Source:
    study = optuna.create_study(storage=storage, study_name="old", direction="maximize")
    for params, value in OLD:
        kinds: dict[str, Any] = {
            name: optuna.distributions.CategoricalDistribution(["a", "b"])
            if name == "kind"
            else optuna.distributions.FloatDistribution(0, 5)
            for name in params
        }
        study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=value))
    study.ask()
    return warm_start_trials.Source(name="old", trials=study.get_trials())


def trials(storage: BaseStorage) -> list[optuna.trial.FrozenTrial]:
    return storage.get_all_trials(storage.get_study_id_from_name("new"))


def test_what_fits_is_taken_and_the_rest_is_told() -> None:
    storage = InMemoryStorage()
    result = warm_start_trials.copy_trials(search(storage), old_study())
    assert (result.source, result.taken) == ("old", 3)
    assert result.left_out == {
        "x is 3.0, but must be from 0 to 1": [2],
        "y is missing": [3],
        "z is no parameter of the space (there are x, kind, y)": [4],
        "not completed": [6],
    }
    assert [trial.value for trial in trials(storage)] == [1.0, 2.0, 6.0]
    assert trials(storage)[1].params == {"x": 0.2, "kind": "b", "y": 0.5}
    assert trials(storage)[2].user_attrs[warm_start_trials.FROM] == "old#5"
    assert result.lines()[0] == "warm start: 3 trials of old are known to the sampler"
    assert "warm start: left out 1 (3): y is missing" in result.lines()


def test_taking_twice_takes_once() -> None:
    storage = InMemoryStorage()
    asking, source = search(storage), old_study()
    first = warm_start_trials.copy_trials(asking, source)
    assert (
        warm_start_trials.copy_trials(asking, source)
        == first
        == warm_start_trials.find_result(asking)
    )
    assert len(trials(storage)) == 3


def test_a_crash_in_the_middle_is_made_good(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = InMemoryStorage()
    asking, source = search(storage), old_study()
    create = storage.create_new_trial

    def crash(*arguments: Any, **more: Any) -> int:
        if len(trials(storage)) == 2:
            raise OSError("the database is gone")
        return create(*arguments, **more)

    monkeypatch.setattr(storage, "create_new_trial", crash)
    with pytest.raises(OSError, match="gone"):
        warm_start_trials.copy_trials(asking, source)
    assert warm_start_trials.find_result(asking) is None
    monkeypatch.undo()
    assert warm_start_trials.copy_trials(asking, source).taken == 3
    assert [trial.value for trial in trials(storage)] == [1.0, 2.0, 6.0]


def test_trials_of_the_study_come_after_those_that_were_taken() -> None:
    storage = InMemoryStorage()
    asking = search(storage)
    warm_start_trials.copy_trials(asking, old_study())
    asked = {number: asking.ask(number) for number in (1, 0, 2)}
    for number in (2, 0):
        asking.tell(number, TrialState.COMPLETED, values=[float(10 + number)])
    assert asking.ask(0) == asked[0]
    found = trials(storage)
    assert [trial.params for trial in found[3:]] == [asked[0], asked[1], asked[2]]
    assert [trial.value for trial in found[3:]] == [10.0, None, 12.0]
    cold = search(InMemoryStorage(), is_warm=False)
    assert {number: cold.ask(number) for number in (1, 0, 2)} == asked


@pytest.mark.parametrize(
    ("sampler", "options"),
    [("tpe", {}), ("reinforce", {"batch": 4, "learning_rate": 0.05}), ("gp", {})],
)
def test_samplers_learn_from_what_was_taken(sampler: str, options: dict[str, Any]) -> None:
    """Forty old trials that are good near x = 0.9 only."""
    storage = InMemoryStorage()
    line = Space({"x": Float(low=0, high=1)})
    study = optuna.create_study(study_name="old", direction="maximize")
    for number in range(40):
        params = {"x": number * 7 % 40 / 40}
        kinds: Any = {"x": optuna.distributions.FloatDistribution(0, 1)}
        value = -abs(params["x"] - 0.9)
        study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=value))
    asking = search(storage, space=line, sampler=sampler, options=options)
    warm_start_trials.copy_trials(
        asking, warm_start_trials.Source(name="old", trials=study.get_trials())
    )
    found = [float(asking.ask(number)["x"] or 0) for number in range(12)]
    assert sum(found) / len(found) > 0.6


def test_what_is_enqueued_is_tried_first() -> None:
    storage = InMemoryStorage()
    asking = search(
        storage,
        is_warm=False,
        sampler="tpe",
        enqueue=[{"x": 0.25, "kind": "a"}, {"kind": "b"}, {"y": 0.5}],
    )
    asked = [asking.ask(number) for number in (0, 1, 2, 3)]
    assert asked[0] == {"x": 0.25, "kind": "a"}
    assert asked[1]["kind"] == "b"
    assert set(asked[1]) == {"x", "kind", "y"}
    assert asked[2].get("y") in (None, 0.5)
    assert [asking.ask(number) for number in (0, 1, 2, 3)] == asked
    asking.tell(0, TrialState.COMPLETED, values=[1.0])
    assert trials(storage)[0].value == 1.0
    assert len(trials(storage)) == 4


def test_what_is_enqueued_comes_after_what_was_taken_and_in_any_order() -> None:
    storage = InMemoryStorage()
    asking = search(storage, enqueue=[{"x": 0.25}, {"x": 0.75}])
    warm_start_trials.copy_trials(asking, old_study())
    asked = {number: asking.ask(number) for number in (2, 1, 0)}
    assert (asked[0]["x"], asked[1]["x"]) == (0.25, 0.75)
    assert asked[2]["x"] not in (0.25, 0.75)
    assert len(trials(storage)) == 6


def test_another_storage_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    old_study(url)
    storage = warm_start_trials.open_existing_storage(url)
    source = warm_start_trials.read_source(
        storage, "old", shown="old", directions=[Direction.MAXIMIZE]
    )
    assert len(source.trials) == 7
    with pytest.raises(
        ValueError, match=r"warm_start\.study is 'new', but there is no such study"
    ):
        warm_start_trials.read_source(storage, "new", shown="new", directions=[Direction.MAXIMIZE])
    with pytest.raises(ValueError, match="its direction is maximize, and this study's is minimiz"):
        warm_start_trials.read_source(storage, "old", shown="old", directions=[Direction.MINIMIZE])
    storage.remove_session()


def test_a_storage_that_is_none_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="but there is no file"):
        warm_start_trials.open_existing_storage(f"sqlite:///{tmp_path}/other.db")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty.db").touch()
    with pytest.raises(ValueError, match="but cannot be read"):
        warm_start_trials.open_existing_storage(f"sqlite:///{tmp_path}/empty.db")
    assert (tmp_path / "empty.db").stat().st_size == 0
    with pytest.raises(ValueError, match="cannot be read") as caught:
        warm_start_trials.open_existing_storage("postgresql+psycopg2://me:secret@127.0.0.1:1/old")
    assert "secret" not in str(caught.value)
