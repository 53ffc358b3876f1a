"""A study belongs to its DAG run: names and run ids that somebody chooses do not get at it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from fastapi.testclient import TestClient

from hpo_ops.client.transport import API
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.protocol import Checkpoint, Report
from tests.gateway.entering import GENERIC, enter, entered
from tests.gateway.web import person, task


def test_a_victims_name_and_run_id_do_not_get_the_victims_study(
    web: TestClient, services: Gateway
) -> None:
    victim = entered(web, "small", owner="ann")
    turn = services.next_actions.next_action(victim["id"], 0, "a")
    assert turn.assignment is not None
    segment = turn.assignment.segment
    services.segments.report(segment, [Report(step=1, metrics={"accuracy": 0.5}, seconds=1.0)])
    saved = Checkpoint(step=1, uri=f"s3://hpo/{victim['key']}/trials/0/1", files=1, bytes=1)
    services.segments.checkpoint(segment, saved)

    attacker = entered(web, GENERIC, owner="mia")  # the same name and run id, another DAG
    assert attacker["id"] != victim["id"]
    assert attacker["key"] != victim["key"]  # what finalize deletes from the store
    kept = web.get(f"{API}/studies/{attacker['id']}/checkpoints/kept", headers=task())
    assert kept.json() == []
    assert web.post(f"{API}/studies/{attacker['id']}/end", headers=task(), json={}).is_success
    states = {
        study["id"]: study["state"] for study in web.get(f"{API}/studies", headers=task()).json()
    }
    assert states == {victim["id"]: "running", attacker["id"]: "ended"}
    assert services.segments.report(segment, []).action == "continue"


def test_turns_are_given_by_dag_run(web: TestClient) -> None:
    keys = {dag_id: entered(web, dag_id)["key"] for dag_id in ("small", GENERIC)}
    for dag_id, key in keys.items():
        where = {"dag_id": dag_id, "run_id": "manual", "key": "a"}
        turn = web.post(f"{API}/trials/0/next_action", headers=task(), params=where).json()
        assert turn["assignment"]["study"] == key


def test_one_dag_run_may_hold_a_study_in_each_task_group(web: TestClient) -> None:
    groups = [
        entered(web, "small", request={"task_group": group}) for group in ("", "left", "right")
    ]
    assert len({study["id"] for study in groups}) == 3
    assert len({study["key"] for study in groups}) == 3
    where = {"dag_id": "small", "run_id": "manual", "key": "a", "task_group": "left"}
    turn = web.post(f"{API}/trials/0/next_action", headers=task(), params=where).json()
    assert turn["assignment"]["study"] == groups[1]["key"]


def test_no_run_id_makes_a_study_share_the_folder_of_another(web: TestClient) -> None:
    forged = f"a-b-{hashlib.sha256(b'a:b').hexdigest()[:6]}"
    runs = ["a:b", forged, "manual", "Manual", "..", ".", "../small", "a/../b", "a/b", "a//b"]
    keys = [
        entered(web, dag_id, run_id, name="small")["key"]
        for dag_id in ("small", GENERIC)
        for run_id in runs
    ]
    assert len({key.lower() for key in keys}) == 2 * len(runs)
    for key in keys:
        name, run = key.split("/")
        assert name == "small"
        assert run.strip(".")


def test_a_study_with_a_dag_of_its_own_keeps_its_path(web: TestClient) -> None:
    assert entered(web, "small", "manual__1")["key"] == "small/manual__1"
    assert entered(web, GENERIC, "manual__1")["key"].startswith("small/manual__1-")


@pytest.mark.parametrize("name", ["code", "archives"])
def test_a_study_is_not_kept_where_code_is_kept(web: TestClient, name: str) -> None:
    assert entered(web, name, name=name)["key"] == f"study-{name}/manual"


def test_a_name_finds_the_newest_study_that_one_may_see(web: TestClient) -> None:
    mine = entered(web, "small", owner="ann")
    entered(web, GENERIC, "later", owner="mia")  # takes the same name
    found = web.get(f"{API}/names/small", headers=person("ann"))
    assert found.status_code == 200, found.text
    assert found.json()["id"] == mine["id"]


def test_a_run_is_followed_by_its_dag_as_well(web: TestClient) -> None:
    mine = entered(web, "small")
    entered(web, GENERIC)
    where = {"run_id": "manual", "dag_id": "small"}
    found = web.get(f"{API}/names/small", headers=task(), params=where)
    assert found.json()["id"] == mine["id"]


@pytest.mark.parametrize(
    ("run_id", "request_keys"),
    [
        ("first", {"experiment": "first"}),  # the run was deleted and is triggered again
        ("first__repeat_1", {"experiment": "first", "repeat": 1}),
        ("own__repeat_1", {"experiment": "own", "repeat": 1}),  # of a run that is not there
    ],
)
def test_nobody_joins_the_experiment_of_another_person(
    web: TestClient, run_id: str, request_keys: dict[str, Any]
) -> None:
    experiment = {"experiment": "first"}
    first = entered(web, GENERIC, "first", owner="mia", repeats=2, request=experiment)
    answer = enter(web, GENERIC, run_id, owner="max", repeats=2, request=request_keys)
    assert answer.status_code == 409
    path = f"{API}/studies/{first['id']}/experiment"
    assert len(web.get(path, headers=task()).json()["repeats"]) == 1
    again = {"experiment": "first", "repeat": 1}
    entered(web, GENERIC, "first__repeat_1", owner="mia", repeats=2, request=again)
    assert len(web.get(path, headers=task()).json()["repeats"]) == 2


def test_an_experiment_has_repeats_of_its_own_dag_only(web: TestClient) -> None:
    experiment = {"experiment": "first"}
    first = entered(web, "small", "first", owner="ann", repeats=2, request=experiment)
    entered(web, GENERIC, "first", owner="mia", repeats=2, request=experiment)
    found = web.get(f"{API}/studies/{first['id']}/experiment", headers=task()).json()
    assert [repeat["study_id"] for repeat in found["repeats"]] == [first["id"]]
