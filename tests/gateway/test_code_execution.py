"""Requests that name code: nothing of it is imported or called in the gateway.

Each test is an attack. It tries to leave a file behind, by a class that writes when it is called
or by a module that writes when it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from fastapi.testclient import TestClient

from hpo_ops.gateway.gateway import Gateway
from tests.gateway.web import begin, person, task
from tests.studies import study_data

API = "/hpo/api/v1"
Attack = Callable[[Path], dict[str, Any]]
MODULE = "hostile_on_import"


def command(marker: Path) -> dict[str, Any]:
    return {"name": "subprocess:Popen", "args": ["touch", str(marker)]}


def importing(marker: Path) -> dict[str, Any]:
    return {"name": f"{MODULE}:Policy"}


POLICIES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "scheduler": lambda policy: {"scheduler": policy},
    "allocator": lambda policy: {"allocator": policy},
    "sampler": lambda policy: {"sampler": policy},
    "curves": lambda policy: {
        "scheduler": {"name": "pop", "max_steps": 9},
        "curves": policy,
        "metric": {"name": "accuracy", "direction": "maximize", "target": 0.9},
    },
    "wrapped": lambda policy: {"scheduler": {"name": "patient", "patience": 1, "wrapped": policy}},
}


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that an attack leaves behind; a module that makes it can be imported."""
    marker = tmp_path / "was_here"
    text = f"open({str(marker)!r}, 'w').close()\nclass Policy: pass\n"
    (tmp_path / f"{MODULE}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return marker


def assert_nothing_ran(marker: Path) -> None:
    started = [child for child in psutil.Process().children() if child.name() == "touch"]
    psutil.wait_procs(started, timeout=10)
    assert not marker.exists()


def import_request(changes: dict[str, Any]) -> dict[str, Any]:
    return {"config": study_data(**changes), "source": "elsewhere", "trials": []}


@pytest.mark.parametrize("attack", [command, importing])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("who", "status"), [("eve", 403), ("bob", 403), ("ann", 422)])
def test_an_import_runs_nothing_that_it_names(
    lasting_web: TestClient, marker: Path, attack: Attack, policy: str, who: str, status: int
) -> None:
    body = import_request(POLICIES[policy](attack(marker)))
    answer = lasting_web.post(f"{API}/imports", json=body, headers=person(who))
    assert_nothing_ran(marker)
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("attack", [command, importing])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_study_that_a_task_enters_runs_nothing_that_it_names(
    lasting_web: TestClient, marker: Path, attack: Attack, policy: str
) -> None:
    body = {
        "config": study_data(**POLICIES[policy](attack(marker))),
        "dag_id": "hpo_study",
        "run_id": f"{policy}-{attack.__name__}",
    }
    answer = lasting_web.post(f"{API}/studies", json=body, headers=task())
    assert_nothing_ran(marker)
    if policy == "sampler":  # an installed algorithm may be asked in a sandbox, later
        return
    assert answer.status_code == 422, answer.text
    if policy != "wrapped":
        assert "HPO_ALLOWED_CLASSES" in answer.json()["detail"]


def test_the_first_proposal_of_an_unknown_sampler_runs_nothing_here(
    lasting: Gateway, lasting_web: TestClient, marker: Path
) -> None:
    body = {
        "config": study_data(name="proposing", sampler=importing(marker)),
        "dag_id": "proposing",
        "run_id": "one",
    }
    study = lasting_web.post(f"{API}/studies", json=body, headers=task())
    assert study.status_code == 200, study.text
    url = f"{API}/studies/{study.json()['id']}/rounds/0"
    answer = lasting_web.post(url, params={"rounds_left": 9}, headers=task())
    assert answer.status_code == 422
    assert_nothing_ran(marker)


@pytest.mark.parametrize("attack", [command, importing])
def test_a_change_of_a_running_study_runs_nothing_that_it_names(
    lasting: Gateway, lasting_web: TestClient, marker: Path, attack: Attack
) -> None:
    study, _ = begin(lasting)
    for key in ("scheduler", "allocator", "sampler", "stop.when", "finalizers"):
        answer = _change(lasting_web, study, {key: attack(marker)})
        assert answer.status_code == 422, answer.text
    assert_nothing_ran(marker)


def _change(web: TestClient, study: int, changes: dict[str, Any]) -> httpx.Response:
    return web.post(f"{API}/studies/{study}/config", json=changes, headers=person("ann"))


def test_who_has_no_right_learns_nothing_about_a_study_that_is_wrong(
    lasting_web: TestClient,
) -> None:
    wrong = import_request({"space": "nonsense"})
    for who, status in (("eve", 403), ("ann", 422)):
        answer = lasting_web.post(f"{API}/imports", json=wrong, headers=person(who))
        assert answer.status_code == status
    for name in (None, 7, ["small"], {}):
        body = import_request({"name": name})
        answer = lasting_web.post(f"{API}/imports", json=body, headers=person("eve"))
        assert answer.status_code == 422
        assert "name is" in answer.json()["detail"]


def test_a_study_stays_readable_when_its_class_is_not_allowed_any_more(
    services: Gateway, web: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "hpo_ops.schedulers._default:Default"
    monkeypatch.setenv("HPO_ALLOWED_CLASSES", name)
    config = study_data(scheduler={"name": name}, allocator=None)
    body = {"config": config, "dag_id": "small", "run_id": "one"}
    study = web.post(f"{API}/studies", json=body, headers=task()).json()["id"]
    url = f"{API}/studies/{study}"
    assert web.post(f"{url}/rounds/0", params={"rounds_left": 9}, headers=task()).is_success
    monkeypatch.delenv("HPO_ALLOWED_CLASSES")
    assert web.get(url, headers=person("bob")).status_code == 200
    assert web.get(f"{API}/studies", headers=person("bob")).json()[0]["id"] == study
    assert web.post(f"{url}/stop", headers=person("ann")).status_code == 200
