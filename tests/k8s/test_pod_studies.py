"""Studies whose trials are pods of a real cluster: what a user sees, and what is left of it."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import ApiException, V1Pod

from hpo_ops.checkpoints import Logs
from hpo_ops.client import Progress, TrialSummary
from hpo_ops.stack import Part
from tests.cluster.cluster import Cluster
from tests.e2e.airflow import wait_for
from tests.k8s.lab import PodLab, pod_lab

GPU = "nvidia.com/gpu"
WHOLE = {"name": "default", "max_steps": 9}


def pace(seconds: float) -> dict[str, Any]:
    """A space whose trials take so long for a step."""
    return {"x": {"float": [-1, 1]}, "pause": {"choices": [seconds]}}


@pytest.fixture(scope="module")
def lab(cluster: Cluster, namespace: str) -> Iterator[PodLab]:
    with pod_lab(cluster, namespace) as made:
        yield made


class Watch:
    """Looks at a study's pods, again and again, in the background."""

    def __init__(self, lab: PodLab, study: str) -> None:
        self._lab, self._study = lab, study
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.seen: dict[str, V1Pod] = {}
        self.most_gpus = 0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.3):
            pods = self._lab.pods(self._study)
            self.seen |= {pod.metadata.name: pod for pod in pods}
            busy = [pod for pod in pods if pod.status.phase in ("Pending", "Running")]
            self.most_gpus = max(self.most_gpus, sum(gpus(pod) for pod in busy))


def gpus(pod: V1Pod) -> int:
    limits = pod.spec.containers[0].resources.limits or {}
    return int(limits.get(GPU, 0))


def ended(lab: PodLab, name: str, run_id: str, state: str = "success") -> Progress:
    assert lab.wait(name, run_id) == state
    wait_for(lambda: not lab.pods(name), what=f"the last pod of {name} to go")
    return lab.study(name, run_id)


def trials(lab: PodLab, study: Progress) -> list[TrialSummary]:
    return lab.session.gateway.trials(study.id)


def starts(lab: PodLab, study: Progress) -> list[tuple[int, int]]:
    """Trial and first step of every segment, in the order in which they began."""
    events = lab.session.gateway.events(study.id)
    return [
        (event["trial"], event["data"]["from_step"])
        for event in events
        if event["kind"] == "segment started"
    ]


def training_log(lab: PodLab, study: Progress, trial: int) -> str:
    """What the trainings of a trial have printed, from the store."""
    logs = Logs(lab.stack.object_store.store(), study.key)
    refs = [ref for ref in logs.all(trial) if ref.container == "training"]
    assert refs, f"there is no log of trial {trial}"
    return b"".join(part for ref in refs for part in logs.read(ref)).decode()


def test_twelve_trials_share_two_gpus(lab: PodLab) -> None:
    name = lab.add_pod_study(
        "k8s_gpus",
        trials=12,
        parallelism=4,
        scheduler=WHOLE,
        resources={"gpu": 1, "cpu": "20m", "memory": "256Mi"},
    )
    with Watch(lab, name) as watch:
        run_id = lab.trigger(name)
        study = ended(lab, name, run_id)
    assert watch.most_gpus == 2
    nodes = {pod.spec.node_name for pod in watch.seen.values() if pod.spec.node_name}
    assert nodes <= set(lab.cluster.pools["gpu"])
    assert study.counts["completed"] == 12
    # Scores by XCom are those of the ledger; the best one is what its parameters make.
    scores = {
        item["map_index"]: lab.xcom(item)
        for item in lab.instances(name, run_id)
        if item["task_id"] == "round_00.trial"
    }
    known = {trial.trial: trial.value for trial in trials(lab, study)}
    assert {score["trial"]: score["value"] for score in scores.values()} == {
        number: known[number] for number in range(4)
    }
    for trial in trials(lab, study):
        assert trial.value == pytest.approx(1 - abs(float(trial.params["x"] or 0)) / 10)
    best = lab.checkpoints(study.key).best()
    assert best is not None
    assert best.step == 9
    assert "trained [1, 2, 3, 4, 5, 6, 7, 8, 9]" in training_log(lab, study, 0)
    # While it runs, the same stands in the task's own log.
    task_log = lab.task_log(name, run_id, "round_00.trial", map_index=0)
    assert "trained [1, 2, 3, 4, 5, 6, 7, 8, 9]" in task_log


def test_trials_whose_pods_are_deleted_go_on_where_they_were(lab: PodLab) -> None:
    """Each trial loses a pod at a random moment."""
    count, rng = 20, random.Random(7)  # noqa: S311, not for secrets
    name = lab.add_pod_study(
        "k8s_deleted",
        flow="rolling",
        trials=count,
        parallelism=5,
        scheduler=WHOLE,
        space=pace(0.5),
        resources={"cpu": "20m", "memory": "128Mi"},
        grace=5,
    )
    run_id = lab.trigger(name)
    delays = {number: rng.uniform(0, 8) for number in range(count)}
    due: dict[int, float] = {}
    hit: set[int] = set()

    def hunt() -> bool:
        for pod in lab.pods(name):
            number = int(pod.metadata.labels["hpo-ops/trial"])
            if number in hit or pod.status.phase not in ("Pending", "Running"):
                continue
            if time.monotonic() >= due.setdefault(number, time.monotonic() + delays[number]):
                with contextlib.suppress(ApiException):  # it has just gone by itself
                    lab.api.delete_namespaced_pod(pod.metadata.name, lab.namespace)
                    hit.add(number)
        return lab.airflow.run_state(name, run_id) in ("success", "failed")

    wait_for(hunt, what="the end of the study", seconds=600)
    study = ended(lab, name, run_id)
    assert study.counts["completed"] == count
    summaries = trials(lab, study)
    assert [trial.trial for trial in summaries] == list(range(count))
    assert all(trial.step == 9 for trial in summaries)
    # A pod that is hit when all is told, or gone before its moment, needs no second one.
    again = {trial.trial for trial in summaries if trial.segments > 1}
    assert again <= hit
    assert len(again) >= count // 2
    for trial in summaries:
        # The training keeps in its checkpoint which steps it took: each once.
        assert "trained [1, 2, 3, 4, 5, 6, 7, 8, 9]" in training_log(lab, study, trial.trial)
    # A segment that follows another begins at the last whole checkpoint, never at an earlier one.
    checkpoints: dict[int, int] = {}
    for event in lab.session.gateway.events(study.id, limit=10_000):
        if event["kind"] == "checkpoint":
            checkpoints[event["trial"]] = max(
                checkpoints.get(event["trial"], 0), event["data"]["step"]
            )
        elif event["kind"] == "segment started":
            assert event["data"]["from_step"] == checkpoints.get(event["trial"], 0)


def test_killing_what_airflow_consists_of_loses_nothing(lab: PodLab) -> None:
    name = lab.add_pod_study(
        "k8s_kills",
        flow="rolling",
        trials=4,
        parallelism=2,
        scheduler=WHOLE,
        space=pace(4.0),
        resources={"cpu": "20m", "memory": "128Mi"},
    )
    with Watch(lab, name) as watch:
        run_id = lab.trigger(name)
        wait_for(lambda: lab.pods(name), what="the first pod")
        for part in (Part.TRIGGERER, Part.SCHEDULER, Part.API_SERVER):
            lab.stack.kill(part)
            time.sleep(1)
            lab.stack.start()
        study = ended(lab, name, run_id)
    assert study.counts["completed"] == 4
    # As if nothing had happened: a pod a trial, none started twice.
    assert len(watch.seen) == 4
    assert sorted(starts(lab, study)) == [(number, 0) for number in range(4)]


def test_a_trial_that_runs_out_of_memory_gets_more_and_goes_on(lab: PodLab) -> None:
    name = lab.add_pod_study(
        "k8s_memory",
        command="python eat.py",
        code=str(lab.training_with("eat.py", EAT)),
        trials=1,
        parallelism=1,
        scheduler={"name": "default", "max_steps": 3},
        resources={"cpu": "20m", "memory": "64Mi", "memory_on_oom": ["512Mi"]},
    )
    study = ended(lab, name, lab.trigger(name))
    assert study.counts["completed"] == 1
    ends = [
        event["data"]["reason"]
        for event in lab.session.gateway.events(study.id)
        if event["kind"] == "segment ended"
    ]
    assert ends[0] == "out of memory: it needed more than 64Mi; the next try gets 512Mi"


EAT = """
from hpo_ops.sdk import trial
state = {}
trial.checkpointed(save=lambda folder: (folder / "x").write_text("1"), load=lambda folder: None)
for step in trial.steps(3):
    if step == 2:
        state["much"] = bytearray(200 << 20)
    trial.report(step, accuracy=0.5)
"""


def test_a_pod_that_never_starts_fails_its_trial_with_kubernetes_own_words(lab: PodLab) -> None:
    name = lab.add_pod_study(
        "k8s_pending",
        trials=2,
        parallelism=2,
        resources={"gpu": 3, "cpu": "20m", "memory": "64Mi"},
        pod={"schedule_timeout": 5},
        stop={"failures": 1.0},
    )
    study = ended(lab, name, lab.trigger(name), state="failed")
    assert study.counts["failed"] == 2
    for trial in trials(lab, study):
        assert "Unschedulable" in trial.reason
        assert "Insufficient nvidia.com/gpu" in trial.reason


def test_pausing_and_stopping_reach_pods(lab: PodLab) -> None:
    name = lab.add_pod_study(
        "k8s_stopped",
        flow="rolling",
        trials=6,
        parallelism=2,
        scheduler={"name": "asha_promoting", "min_steps": 1, "max_steps": 9, "eta": 3},
        space=pace(1.0),
        resources={"cpu": "20m", "memory": "128Mi"},
    )
    run_id = lab.trigger(name)

    def resumed() -> bool:
        found = lab.session.gateway.find(name, run_id)
        return any(from_step > 0 for _, from_step in starts(lab, found))

    wait_for(lambda: lab.pods(name), what="the first pod")
    wait_for(resumed, what="a paused trial that goes on")
    lab.session.gateway.stop(lab.study(name, run_id).id, "enough")
    study = ended(lab, name, run_id)
    assert (study.state, study.reason) == ("ended", "enough")
    assert study.counts["failed"] == 0
    logs = Logs(lab.stack.object_store.store(), study.key)
    assert {ref.container for ref in logs.all()} == {"training", "agent", "restore"}


def test_no_secret_outlives_its_pod(lab: PodLab) -> None:
    def left() -> list[str]:
        found = lab.api.list_namespaced_secret(
            lab.namespace, label_selector="app.kubernetes.io/managed-by=hpo-ops"
        )
        return [secret.metadata.name for secret in found.items]

    wait_for(lambda: not left(), what="secrets to go with their pods")
    assert left() == []
