"""Warm starts and enqueued parameters, as a study uses them."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import optuna
import pytest
from fastapi.testclient import TestClient

from hpo_ops.client import StudyRequest
from hpo_ops.client.transport import API
from hpo_ops.config import StudyError
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.best_trial import find_best
from tests.gateway.test_searching import SPACE, WHOLE, run
from tests.gateway.web import task
from tests.studies import study_data


def start(services: Gateway, run_id: str, **changes: Any) -> list[str]:
    data = study_data(**{"scheduler": WHOLE, "space": SPACE, **changes})
    return services.studies.start(
        StudyRequest(config=data, dag_id=data["name"], run_id=run_id, owner="ann")
    ).notes


def told(services: Gateway, database: str) -> list[float | None]:
    """The values that Optuna has of the newest study, the taken ones first."""
    key = next(services.ledger.named("small")).key
    seen = optuna.load_study(study_name=key, storage=database)
    return [trial.value for trial in seen.trials]


def test_a_study_starts_from_an_earlier_one(services: Gateway, database: str) -> None:
    first = run(services, "one", name="first")
    second = run(services, "two", warm_start={"study": "first"}, sampler="tpe")
    values = [trial.value for trial in first + second]
    assert told(services, database) == values
    assert [trial.trial for trial in second] == list(range(6))
    best = find_best(services.ledger, next(services.ledger.named("small")))
    assert best is not None
    assert best.value == max(trial.value or 0 for trial in second)


def test_each_run_starts_from_the_one_before(services: Gateway, database: str) -> None:
    again = {"study": "small"}
    assert start(services, "zero", warm_start=again) == [
        "warm start: 0 trials of small, which has no earlier run are known to the sampler"
    ]
    run(services, "one", warm_start=again)
    run(services, "two", warm_start=again)
    assert len(told(services, database)) == 12
    run(services, "three", warm_start={"study": "small", "run": "one"})
    assert len(told(services, database)) == 12


def test_preparing_again_takes_nothing_more(services: Gateway, database: str) -> None:
    run(services, "one", name="first")
    notes = start(services, "two", warm_start={"study": "first"})
    assert notes == ["warm start: 6 trials of first/one are known to the sampler"]
    run(services, "three", name="first")
    assert start(services, "two", warm_start={"study": "first"}) == notes
    assert len(told(services, database)) == 6


def test_what_is_left_out_is_told(services: Gateway) -> None:
    run(services, "one", name="first")
    narrow = {"lr": {"float": [0.0, 0.0001]}, "width": {"int": [1, 4]}}
    notes = start(services, "two", warm_start={"study": "first"}, space=narrow)
    assert notes[0] == "warm start: 0 trials of first/one are known to the sampler"
    assert all("but must be from 0 to 0.0001" in note for note in notes[1:])


def test_a_study_starts_from_another_storage(
    services: Gateway, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    old = optuna.create_study(
        storage=url,
        study_name="theirs",
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=1),
    )
    old.optimize(
        lambda trial: trial.suggest_float("lr", 0, 1) + trial.suggest_int("width", 1, 9), 8
    )
    inside = [trial.value for trial in old.trials if trial.params["width"] <= 4]
    assert 0 < len(inside) < 8
    monkeypatch.setenv("HPO_STORAGE_OLD", url)
    run(services, "one", warm_start={"study": "theirs", "storage": "old"})
    assert told(services, database)[: len(inside)] == inside


def test_a_study_cannot_make_the_gateway_open_an_address(web: TestClient, tmp_path: Path) -> None:
    """A server inside the network, and a file of the gateway's machine: neither is opened."""
    file = tmp_path / "private.db"
    optuna.create_study(storage=f"sqlite:///{file}", study_name="theirs", direction="maximize")
    with socket.create_server(("127.0.0.1", 0)) as inside:
        inside.settimeout(0.5)
        host = f"127.0.0.1:{inside.getsockname()[1]}"
        for address in (
            f"postgresql://{host}/db?connect_timeout=1",
            f"mysql+pymysql://{host}/db",
            f"sqlite:///{file}",
            f"sqlite:///file:{file}?mode=ro&uri=true",
        ):
            body = {
                "config": study_data(warm_start={"study": "theirs", "storage": address}),
                "dag_id": "small",
                "run_id": "r",
            }
            answer = web.post(f"{API}/studies", headers=task(), json=body)
            assert answer.status_code == 422
            assert "must be a name" in answer.json()["detail"]
        with pytest.raises(TimeoutError):
            inside.accept()


def test_the_address_of_a_named_storage_is_not_told(
    services: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPO_STORAGE_OLD", "postgresql://me:secret@127.0.0.1:1/private")
    with pytest.raises(StudyError, match="'old', but cannot be read") as caught:
        start(services, "two", warm_start={"study": "x", "storage": "old"})
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"study": "nobody"}, "warm_start.study is 'nobody', but there is no such study"),
        ({"study": "first", "run": "x"}, "warm_start.run is 'x', but there is no such study"),
        ({"study": "x", "storage": "old"}, "'old', but the gateway has no HPO_STORAGE_OLD"),
        ({"study": "x", "storage": "sqlite:////no/file.db"}, "is a URL, but must be a name"),
        ({"study": "loss"}, "its metric is loss, and this study's is accuracy"),
    ],
)
def test_what_cannot_be_started_from_is_told_before_the_study_is_there(
    services: Gateway, wanted: dict[str, str], message: str
) -> None:
    start(services, "one", name="first")
    start(services, "one", name="loss", metric={"name": "loss", "direction": "maximize"})
    with pytest.raises(StudyError, match=message):
        start(services, "two", warm_start=wanted)
    assert list(services.ledger.named("small")) == []


def test_enqueued_parameters_are_tried_first(services: Gateway) -> None:
    enqueue = [{"lr": "5e-1", "width": 2}, {"width": 3.0}]
    for sampler in ("tpe", "reinforce"):
        trials = run(services, sampler, sampler=sampler, enqueue=enqueue)
        assert trials[0].params == {"lr": 0.5, "width": 2}
        assert trials[1].params["width"] == 3
        assert trials[2].params["lr"] != 0.5
