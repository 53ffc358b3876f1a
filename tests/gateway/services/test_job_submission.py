"""Jobs over HTTP: a POST is a study, twice the same is one, and mistakes are named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import HTTPException, Request
from fastapi.testclient import TestClient
from obstore.store import MemoryStore

from hpo_ops.checkpoints.code_archive import local_code
from hpo_ops.client import StudyRequest
from hpo_ops.config import parse_study
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.gateway_settings import job_runner
from hpo_ops.gateway.http import request_limits
from hpo_ops.gateway.http.gateway_app import create_app
from hpo_ops.gateway.services.job_submission import Platform
from hpo_ops.protocol import Outcome, Report, SegmentResult
from tests.gateway.web import task
from tests.jobs import CODE, SAMPLE, archive

URL = "/api/v1/jobs"
LOGIN = {"Authorization": "Bearer ci"}
SMALL = {**SAMPLE, "hp_ranges": {"x": [1, 2], "y": [3, 4]}, "num_iterations": 4, "seed": 3}


@dataclass
class FakeRuns:
    """Airflow's DAG runs, in memory."""

    started: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    fails: int = 0

    def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any], *, user: str) -> None:
        if self.fails:
            self.fails -= 1
            raise LookupError("Airflow has no DAG yet")
        self.users.setdefault(run_id, user)
        self.started.setdefault((dag_id, run_id), json.loads(json.dumps(conf)))

    def state(self, dag_id: str, run_id: str) -> str | None:
        return self.states.get(run_id, "queued")


@dataclass(frozen=True)
class Person:
    name: str

    def may_read(self, dag_id: str) -> bool:
        return True

    def may_edit(self, dag_id: str) -> bool:
        return True

    def may_start(self, dag_id: str) -> bool:
        return self.name != "reader"

    def may_operate(self) -> bool:
        return False


async def log_in(request: Request) -> Person:
    name = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not name:
        raise HTTPException(401, "log in first")
    return Person(name)


@dataclass
class Lab:
    web: TestClient
    runs: FakeRuns
    store: MemoryStore
    folder: Path
    services: Gateway

    def post(
        self,
        job: Mapping[str, Any] = SMALL,
        code: bytes | None = None,
        headers: Mapping[str, str] = LOGIN,
    ) -> httpx.Response:
        if code is None:
            code = archive()
        files = {"job": ("job.json", json.dumps(job)), "code": ("model.tar.gz", code)}
        return self.web.post(URL, files=files, headers=dict(headers))


@pytest.fixture
def lab(services: Gateway, tmp_path: Path) -> Lab:
    runs, store = FakeRuns(), MemoryStore()
    platform = Platform(
        runs=runs,
        open_store=lambda: ("s3://hpo", store),
        folder=tmp_path / "code",
        runner="local",
        most_trials=1024,
    )
    app = create_app(services, login=log_in, platform=platform)
    web = TestClient(app, raise_server_exceptions=False)
    return Lab(web, runs, store, platform.folder, services)


def test_the_papers_job_with_its_archive_is_a_study_of_the_generic_dag(lab: Lab) -> None:
    answer = lab.post(SAMPLE)
    assert answer.status_code == 201, answer.text
    status = answer.json()
    assert (status["job"], status["state"], status["iterations"]) == ("SampleModel", "queued", 150)
    ((key, conf),) = lab.runs.started.items()
    assert key == ("hpo_study", status["run_id"])
    assert key[1].startswith("job__SampleModel__")
    assert answer.headers["Location"] == f"{URL}/SampleModel?run_id={key[1]}"
    name = conf["study"]["code"].removeprefix("s3://hpo/")
    code = local_code(lab.store, name, lab.folder)
    assert (code / "modelpkg/train.py").read_text() == CODE["modelpkg/train.py"]
    study = parse_study({**conf["study"], "code": str(code)}, source="test")
    assert (study.trials, study.parallelism, study.space.grid_size()) == (150, 8, 108)


def test_the_same_job_twice_is_one_study(lab: Lab) -> None:
    first, second = lab.post(), lab.post()
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert len(lab.runs.started) == 1


def test_another_job_under_the_same_name_is_a_conflict_that_names_what_differs(lab: Lab) -> None:
    lab.post()
    answer = lab.post({**SMALL, "num_iterations": 3, "strategy": "TPE"})
    assert answer.status_code == 409
    assert "job SampleModel was submitted before" in answer.json()["detail"]
    assert "another strategy, num_iterations" in answer.json()["detail"]
    other = lab.post(code=archive({**CODE, "modelpkg/train.py": "class Model: ..."}))
    assert other.status_code == 409
    assert "another the code" not in other.json()["detail"]
    assert "other code" in other.json()["detail"]
    assert len(lab.runs.started) == 1


def test_an_idempotency_key_runs_a_name_once_more_but_itself_only_once(lab: Lab) -> None:
    keyed = {**LOGIN, "Idempotency-Key": "build 17"}
    plain = lab.post()
    again, repeated = lab.post(headers=keyed), lab.post(headers=keyed)
    assert (again.status_code, repeated.status_code) == (201, 200)
    assert again.json()["run_id"] == repeated.json()["run_id"] != plain.json()["run_id"]
    assert len(lab.runs.started) == 2
    other = lab.post({**SMALL, "seed": 4}, headers=keyed)
    assert other.status_code == 409
    assert "Idempotency-Key build 17" in other.json()["detail"]


def test_names_and_keys_of_jobs_are_each_persons_own(lab: Lab) -> None:
    ann, bob = ({"Authorization": f"Bearer {name}"} for name in ("ann", "bob"))
    taken = {**bob, "Idempotency-Key": "SampleModel"}  # a key that looks like a name
    squatted = lab.post({**SMALL, "seed": 4}, headers=taken)
    named = lab.post({**SMALL, "seed": 5}, headers=bob)
    mine = lab.post(headers=ann)
    keyed = lab.post({**SMALL, "seed": 6}, headers={**ann, "Idempotency-Key": "SampleModel"})
    answers = (squatted, named, mine, keyed)
    assert [answer.status_code for answer in answers] == [201] * 4, [a.text for a in answers]
    assert len(lab.runs.started) == 4
    again = lab.post(headers=ann)
    assert (again.status_code, again.json()["run_id"]) == (200, mine.json()["run_id"])


def test_a_job_of_a_name_is_ones_own_where_one_has_it(lab: Lab) -> None:
    ann, bob, cat = ({"Authorization": f"Bearer {name}"} for name in ("ann", "bob", "cat"))
    mine = lab.post(headers=ann).json()["run_id"]
    theirs = lab.post(headers=bob).json()["run_id"]
    assert mine != theirs
    shown = [
        lab.web.get(f"{URL}/SampleModel", headers=who).json()["run_id"] for who in (ann, bob, cat)
    ]
    assert shown == [mine, theirs, theirs]  # without one of their own, the newest


def test_nobody_can_trigger_a_run_in_the_place_of_a_job_to_come(lab: Lab) -> None:
    squatted = ("hpo_study", "job__SampleModel")
    lab.runs.started[squatted] = {"study": {"name": "evil"}}
    answer = lab.post()
    assert answer.status_code == 201
    assert answer.json()["run_id"] != squatted[1]
    assert len(lab.runs.started) == 2


def test_only_the_owner_of_a_job_acts_on_its_study(lab: Lab) -> None:
    ann, bob = ({"Authorization": f"Bearer {name}"} for name in ("ann", "bob"))
    lab.post(headers=ann)
    ((dag_id, run_id), conf) = next(iter(lab.runs.started.items()))
    code = local_code(lab.store, conf["study"]["code"].removeprefix("s3://hpo/"), lab.folder)
    body = {
        "config": {**conf["study"], "code": str(code)},
        "dag_id": dag_id,
        "run_id": run_id,
        "owner": lab.runs.users[run_id],
    }
    study = lab.web.post("/api/v1/studies", headers=task(), json=body).json()
    for action in ("pause", "resume", "stop", "close"):
        answer = lab.web.post(f"/api/v1/studies/{study['id']}/{action}", headers=bob)
        assert answer.status_code == 403
        assert "belongs to ann" in answer.json()["detail"]
    answer = lab.web.post(f"/api/v1/studies/{study['id']}/stop", headers=ann)
    assert answer.status_code == 200


def test_a_job_whose_run_could_not_be_started_is_started_by_the_next_post(lab: Lab) -> None:
    lab.runs.fails = 1
    assert lab.post().status_code == 404
    assert lab.runs.started == {}
    assert lab.post().status_code == 200
    assert len(lab.runs.started) == 1


def test_an_archive_may_lie_in_the_store_instead(lab: Lab) -> None:
    missing = lab.web.post(URL, json=SMALL, headers=LOGIN)
    assert missing.status_code == 422
    assert "file_name is '/sample_model.tar.gz'" in missing.json()["detail"]
    lab.store.put("archives/sample_model.tar.gz", archive())
    # As `curl -d @job.json` sends it: without saying that it is JSON.
    plain = {**LOGIN, "Content-Type": "application/x-www-form-urlencoded"}
    answer = lab.web.post(URL, content=json.dumps(SMALL), headers=plain)
    assert answer.status_code == 201, answer.text
    outside = lab.web.post(URL, json={**SMALL, "file_name": "../code/x"}, headers=LOGIN)
    assert outside.status_code == 409  # the same name with another file_name
    renamed = {**SMALL, "jobname": "other", "file_name": "../code/x"}
    assert "must stay inside" in lab.web.post(URL, json=renamed, headers=LOGIN).text


def test_a_job_without_one_of_its_keys_is_refused_by_its_name(lab: Lab) -> None:
    for key in SAMPLE:
        answer = lab.post({name: value for name, value in SAMPLE.items() if name != key})
        assert answer.status_code == 422
        assert f"{key} is missing, but is required" in answer.json()["detail"]
    assert lab.runs.started == {}


def test_what_does_not_fit_is_said_before_anything_runs(lab: Lab) -> None:
    for changes, said in (
        ({"module_name": "missing"}, "module_name is 'missing', but there is no modelpkg/missing"),
        (
            {"num_iterations": 5000},
            "num_iterations is 5000, but must be 1024 or less on this platform",
        ),
        (
            {"parallelism_fact": 65},
            "parallelism_fact is 65, but must be 64 or less on this platform",
        ),
        ({"strategy": "MAGIC"}, "strategy is 'magic', but must be one of"),
    ):
        answer = lab.post({**SMALL, **changes})
        assert answer.status_code == 422
        assert said in answer.json()["detail"]
    assert lab.runs.started == {}
    assert lab.web.get(f"{URL}/SampleModel", headers=LOGIN).status_code == 404


def test_a_strategy_may_be_a_class_of_the_archive(lab: Lab) -> None:
    search = """
class Search:
    def sample_hyperparameter_candidates(self, n):
        return [{"x": 1, "y": 3}] * n
    def update_state(self, candidates, validation_scores):
        pass
"""
    code = archive({**CODE, "modelpkg/search.py": search})
    own = {**SMALL, "strategy": "modelpkg.search:Search"}
    assert lab.post(own, code).status_code == 201
    conf = next(iter(lab.runs.started.values()))
    assert conf["study"]["sampler"]["name"] == "modelpkg.search:Search"
    missing = {**own, "jobname": "other", "strategy": "modelpkg.none:Search"}
    answer = lab.post(missing, code)
    assert answer.status_code == 422
    assert "strategy is 'modelpkg.none:Search'" in answer.json()["detail"]


def test_a_job_runs_nothing_that_its_strategy_names(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "was_here"
    writes = f"open({str(marker)!r}, 'w').close()\n"
    (tmp_path / "hostile_strategy.py").write_text(writes)
    monkeypatch.syspath_prepend(str(tmp_path))
    code = archive({**CODE, "modelpkg/search.py": writes})
    for number, name in enumerate(("hostile_strategy:Search", "modelpkg.search:Search")):
        lab.post({**SMALL, "jobname": f"job{number}", "strategy": name}, code)
        assert not marker.exists()


def test_an_archive_that_cannot_be_trusted_is_not_kept(lab: Lab) -> None:
    answer = lab.post(code=archive({"../evil.py": "", **CODE}, with_folders=False))
    assert answer.status_code == 422
    assert "file_name is '/sample_model.tar.gz', but '../evil.py'" in answer.json()["detail"]
    assert list(lab.store.list()) == []
    assert not lab.folder.exists()


def test_a_body_that_is_no_job_or_too_large_is_refused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab.web.post(URL, content="{", headers=LOGIN).status_code == 422
    assert lab.web.post(URL, json=[1], headers=LOGIN).status_code == 422
    only_code = lab.web.post(URL, files={"code": ("c", archive())}, headers=LOGIN)
    assert "job is missing" in only_code.json()["detail"]
    text = lab.web.post(URL, data={"code": "x"}, files={"job": ("j", "{}")}, headers=LOGIN)
    assert "must be a file" in text.json()["detail"]
    monkeypatch.setattr(request_limits, "ARCHIVE_BODY", 10)
    monkeypatch.setattr(request_limits, "JOB_BODY", 10)
    assert lab.post().status_code == 413
    chunks = lab.web.post(URL, content=iter([b"{}", b" " * 10]), headers=LOGIN)
    assert chunks.status_code == 413


def test_jobs_need_the_right_to_start_runs(lab: Lab) -> None:
    assert lab.post(headers={}).status_code == 401
    answer = lab.post(headers={"Authorization": "Bearer reader"})
    assert answer.status_code == 403
    assert answer.json()["detail"] == "no right to start runs of hpo_study"
    assert lab.web.get(f"{URL}/SampleModel").status_code == 401


def test_a_job_says_how_far_it_is_and_what_is_best(lab: Lab) -> None:
    lab.post()
    ((dag_id, run_id), conf) = next(iter(lab.runs.started.items()))
    code = local_code(lab.store, conf["study"]["code"].removeprefix("s3://hpo/"), lab.folder)
    handle = lab.services.studies.start(
        StudyRequest(config={**conf["study"], "code": str(code)}, dag_id=dag_id, run_id=run_id)
    )
    turn = lab.services.next_actions.next_action(handle.id, 0, "try")
    assert turn.assignment is not None
    report = Report(step=1, metrics={"score": 13.0}, seconds=1.0)
    lab.services.segments.report(turn.assignment.segment, [report])
    lab.services.segments.finish(
        turn.assignment.segment, SegmentResult(outcome=Outcome.COMPLETED, step=1)
    )
    status = lab.web.get(f"{URL}/SampleModel", headers=LOGIN).json()
    assert (status["state"], status["completion"], status["iterations"]) == ("running", 0.25, 4)
    assert status["best"]["value"] == 13.0
    lab.runs.states[run_id] = "failed"
    assert lab.web.get(f"{URL}/SampleModel", headers=LOGIN).json()["state"] == "failed"


def test_a_gateway_outside_of_airflow_takes_no_jobs(services: Gateway) -> None:
    web = TestClient(create_app(services, login=log_in))
    answer = web.post(URL, json=SMALL, headers=LOGIN)
    assert answer.status_code == 503
    assert "submit them to the gateway in Airflow's api-server" in answer.json()["detail"]


def test_the_deployment_says_where_jobs_run() -> None:
    assert job_runner({}) == "local"
    assert job_runner({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == "kubernetes"
    assert job_runner({"AIRFLOW_CONN_KUBERNETES_DEFAULT": "{}"}) == "kubernetes"
    assert (
        job_runner({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HPO_JOB_RUNNER": "local"}) == "local"
    )
    with pytest.raises(ValueError, match="HPO_JOB_RUNNER is 'mars'"):
        job_runner({"HPO_JOB_RUNNER": "mars"})
