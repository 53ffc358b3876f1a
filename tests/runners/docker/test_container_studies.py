"""Studies of containers under a real Airflow, from the trigger to the checkpoint in S3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpo_ops.client import Progress
from hpo_ops.runners.docker._container_spec import SEGMENT_LABEL, STUDY_LABEL, TRIAL_LABEL
from hpo_ops.runners.docker._engine_api import Container, DockerEngine
from hpo_ops.stack import Stack
from tests.docker_engine import IMAGE, TestEngine
from tests.e2e.airflow import QUIET, Lab, wait_for
from tests.e2e.conftest import dags, place
from tests.e2e.test_kills import kill_worker_of

__all__ = ["dags", "place"]

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def lab(place: Path, dags: Path, docker_engine: TestEngine) -> Iterator[Lab]:
    """A stack whose workers have the engine."""
    environment = {**QUIET, "DOCKER_HOST": docker_engine.host}
    made = Stack(place / ".hpo", dags=dags, port=0, s3_port=0, extra_environment=environment)
    with made:
        yield Lab(made)
    assert made.processes() == []


@pytest.fixture(scope="module")
def engine(docker_engine: TestEngine) -> Iterator[DockerEngine]:
    client = DockerEngine(docker_engine.host)
    yield client
    client.close()


@pytest.fixture(scope="module")
def runs(lab: Lab) -> dict[str, str]:
    """The DAG runs of all studies by name, begun together."""
    studies = {
        "docker_study": {"trials": 4, "parallelism": 1},
        "docker_kills": {
            "flow": "rolling",
            "trials": 1,
            "parallelism": 1,
            "scheduler": {"name": "default", "max_steps": 9},
            "space": {"x": {"float": [-1, 1]}, "pause": {"choices": [1.0]}},
        },
    }
    for name, changes in studies.items():
        lab.write_study(name, runner="docker", image=IMAGE, **changes)
    for name in studies:
        lab.wait_for_study(name)
    return {name: lab.trigger(name) for name in studies}


def left_of(engine: DockerEngine, study: Progress) -> list[Container]:
    return engine.list_containers({STUDY_LABEL: study.key})


def from_steps(lab: Lab, study: Progress, trial: int) -> list[int]:
    """The step that each segment of a trial has started from."""
    return [
        event["data"]["from_step"]
        for event in lab.session.gateway.events(study.id)
        if event["kind"] == "segment started" and event["trial"] == trial
    ]


def saved_steps(lab: Lab, path: str) -> list[int]:
    saved = lab.stack.object_store.store().get(path).bytes()
    steps: list[int] = json.loads(bytes(saved))["steps"]
    return steps


def test_a_trial_outlives_its_container_and_its_task(
    lab: Lab, engine: DockerEngine, runs: dict[str, str]
) -> None:
    name, run_id = "docker_kills", runs["docker_kills"]

    def running(*, but: set[str], steps: int) -> Container | None:
        """The container of the trial, once the trial has come so far."""
        try:
            study = lab.session.gateway.find(name, run_id)
        except LookupError:
            return None
        found = [item for item in left_of(engine, study) if item.labels[SEGMENT_LABEL] not in but]
        reached = [trial.step for trial in lab.session.gateway.trials(study.id)]
        return found[0] if found and max(reached) >= steps else None

    first = wait_for(lambda: running(but=set(), steps=2), what="a container at step 2")
    engine.send_signal(first.id, "SIGKILL")
    seen = {first.labels[SEGMENT_LABEL]}
    second = wait_for(lambda: running(but=seen, steps=4), what="another one at step 4")
    (instance,) = [item for item in lab.instances(name, run_id) if item["task_id"] == "trial"]
    kill_worker_of(lab, instance)
    assert lab.wait(name, run_id) == "success"

    study = lab.study(name, run_id)
    assert second.labels[TRIAL_LABEL] == "0"
    starts = from_steps(lab, study, 0)
    assert len(starts) == 3
    assert starts[0] == 0
    assert starts[1] >= 1
    assert starts[2] >= 3
    assert saved_steps(lab, f"{study.key}/best/state.json") == list(range(1, 10))
    assert left_of(engine, study) == []


def test_a_study_completes_in_containers_and_leaves_none(
    lab: Lab, engine: DockerEngine, runs: dict[str, str]
) -> None:
    name, run_id = "docker_study", runs["docker_study"]
    assert lab.wait(name, run_id) == "success"
    study = lab.study(name, run_id)
    trials = lab.session.gateway.trials(study.id)
    assert {trial.state.value for trial in trials} <= {"completed", "pruned"}
    for trial in trials:
        expected = 1 - abs(trial.params["x"]) / (1 + trial.best_step)
        assert trial.value == pytest.approx(expected)
    assert study.best is not None
    steps = saved_steps(lab, f"{study.key}/best/state.json")
    assert steps == list(range(1, study.best.checkpoint_step + 1))
    shown = lab.hpo("logs", name, "--trial", str(study.best.trial))
    assert "begins after []" in shown.stdout, shown.stderr
    made_from = lab.hpo("show", name, str(study.best.trial)).stdout
    assert f"{IMAGE} sha256:" in made_from
    assert left_of(engine, study) == []
