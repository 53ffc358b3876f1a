"""An Optuna study of someone's becomes a run of ours, and a study starts from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import optuna
import pytest
from fastapi.testclient import TestClient

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.import_command import import_lines, parse_renames, read_storage
from hpo_ops.client import StudyRequest
from hpo_ops.client.import_messages import Imported, ImportRequest
from hpo_ops.config import StudyConfig, parse_study
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.gateway.queries.study_overview import read_progress
from hpo_ops.gateway.queries.trial_lists import read_learning_curve
from hpo_ops.gateway.tokens import issue_service_token
from hpo_ops.ledger import StudyIdentity
from tests.studies import study_data


@pytest.fixture
def study() -> StudyConfig:
    return parse_study(study_data(), source="test")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A storage with a study of five trials: three good ones, one outside, one that failed."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    url = f"sqlite:///{tmp_path}/old.db"
    old = optuna.create_study(study_name="old", storage=url, direction="maximize")
    space: dict[str, Any] = {
        "lr": optuna.distributions.FloatDistribution(1e-5, 1.0, log=True),
        "width": optuna.distributions.IntDistribution(4, 64),
    }
    for lr, value in ((0.01, 0.8), (0.02, 0.9), (0.5, 0.95), (0.03, 0.7)):
        old.add_trial(
            optuna.trial.create_trial(
                params={"lr": lr, "width": 8},
                distributions=space,
                value=value,
                intermediate_values={1: 0.1, 2: value},
            )
        )
    old.add_trial(optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL))
    return url


def post(services: Gateway, request: ImportRequest) -> httpx.Response:
    token = issue_service_token(services.keys)
    return TestClient(create_app(services)).post(
        "/api/v1/imports",
        json=request.to_dict(),
        headers={"Authorization": f"Bearer {token}"},
    )


def test_what_fits_is_an_ended_run_and_a_warm_start_uses_it(
    services: Gateway, study: StudyConfig, url: str
) -> None:
    request = read_storage(url, study, name=None, renames={})
    answers = [post(services, request) for _ in range(2)]  # twice the same is one run
    assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
    assert answers[0].json() == answers[1].json()
    done = Imported.from_dict(answers[0].json())
    assert done.taken == 3
    assert done.left_out == {"lr is 0.5, but must be from 0.0001 to 0.1": [2]}
    assert any(
        line == "left out 1 (2): lr is 0.5, but must be from 0.0001 to 0.1"
        for line in import_lines(done, request.source)
    )
    assert len(list(services.ledger.recent())) == 1

    record = services.ledger.find_run(StudyIdentity("small", done.run_id))
    progress = read_progress(services.ledger, record)
    assert (progress.state, progress.trials, progress.counts["completed"]) == ("ended", 3, 3)
    assert progress.best is not None
    assert (progress.best.value, progress.best.step) == (0.9, 2)
    assert read_learning_curve(services.ledger, record, 1)[0].metrics == {"accuracy": 0.1}

    warm = study_data(warm_start={"study": "small", "run": done.run_id})
    handle = services.studies.start(StudyRequest(config=warm, dag_id="small", run_id="run"))
    assert handle.notes == [
        f"warm start: 3 trials of small/{done.run_id} are known to the sampler"
    ]


def test_an_import_of_which_nothing_fits_says_why_and_enters_nothing(
    services: Gateway, url: str
) -> None:
    space = {"rate": {"float": [0.1, 1]}}
    other = parse_study(study_data(space=space), source="test")
    answer = post(services, read_storage(url, other, name="old", renames={"lr": "rate"}))
    assert answer.status_code == 422
    assert "width is no parameter of the space (there are rate)" in answer.json()["detail"]
    assert "rate is 0.01, but must be from 0.1 to 1" in answer.json()["detail"]
    assert list(services.ledger.recent()) == []


def test_a_parameter_may_have_another_name(services: Gateway, url: str) -> None:
    space = {"rate": {"float": [1e-5, 1], "log": True}, "width": {"int": [4, 64]}}
    other = parse_study(study_data(space=space), source="test")
    renames = parse_renames(["lr=rate"])
    answer = post(services, read_storage(url, other, name="old", renames=renames))
    assert answer.json()["taken"] == 4
    with pytest.raises(CommandError, match="--rename is 'lr', but must be of the form old=new"):
        parse_renames(["lr"])


def test_values_that_are_no_numbers_are_left_out(
    services: Gateway, study: StudyConfig, url: str
) -> None:
    old = optuna.load_study(study_name="old", storage=url)
    old.add_trial(
        optuna.trial.create_trial(
            params=old.trials[0].params,
            distributions=old.trials[0].distributions,
            value=float("inf"),
            intermediate_values={1: float("nan")},
        )
    )
    done = post(services, read_storage(url, study, name="old", renames={})).json()
    assert done["left_out"]["has a value that is not a finite number"] == [5]


def test_a_storage_that_cannot_be_used_is_named_without_its_password(
    study: StudyConfig, url: str, tmp_path: Path
) -> None:
    with pytest.raises(CommandError, match="there is no study 'new'; the storage has: old"):
        read_storage(url, study, name="new", renames={})
    with pytest.raises(CommandError, match=r"the storage is sqlite.*but there is no file"):
        read_storage(f"sqlite:///{tmp_path}/missing.db", study, name="old", renames={})
    with pytest.raises(CommandError) as caught:
        read_storage("postgresql://ann:secret@127.0.0.1:1/x", study, name="old", renames={})
    assert "secret" not in str(caught.value)
    loss = {"name": "loss", "direction": "minimize"}
    other = parse_study(study_data(metric=loss), source="test")
    with pytest.raises(CommandError, match="its direction is maximize, and this study's is min"):
        read_storage(url, other, name="old", renames={})
    optuna.create_study(study_name="second", storage=url)
    with pytest.raises(CommandError, match="--study is missing; the storage has: old, second"):
        read_storage(url, study, name=None, renames={})
