"""Studies whose trials are pods of a real cluster: what a user sees, and what is left of it."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import time
from concurrent.futures import Future, wait

import pytest
from kubernetes.client import ApiException

from hpo_ops.checkpoints import Logs
from hpo_ops.stack import Part
from tests.e2e.airflow import wait_for
from tests.k8s.lab import ALL_STEPS, WHOLE, PodLab, Watch, pace
from tests.k8s.stories import Story, each


def trials_whose_pods_are_deleted_go_on_where_they_were(lab: PodLab) -> None:
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
    nodes: set[str] = set()

    def hunt() -> bool:
        for pod in lab.pods(name):
            number = int(pod.metadata.labels["hpo-ops/trial"])
            nodes.update([pod.spec.node_name] if pod.spec.node_name else [])
            if number in hit or pod.status.phase not in ("Pending", "Running"):
                continue
            if time.monotonic() >= due.setdefault(number, time.monotonic() + delays[number]):
                with contextlib.suppress(ApiException):  # it has just gone by itself
                    lab.api.delete_namespaced_pod(pod.metadata.name, lab.namespace)
                    hit.add(number)
        return lab.airflow.run_state(name, run_id) in ("success", "failed")

    wait_for(hunt, what="the end of the study", seconds=600)
    study = lab.ended(name, run_id)
    summaries = lab.trials(study)
    lost = {trial.trial: (trial.state, trial.reason) for trial in summaries if trial.step < 9}
    assert (study.counts["completed"], lost) == (count, {})
    assert [trial.trial for trial in summaries] == list(range(count))
    # A pod that is hit when all is told, or gone before its moment, needs no second one.
    again = {trial.trial for trial in summaries if trial.segments > 1}
    assert again <= hit
    assert len(again) >= count // 2
    for trial in summaries:
        # The training keeps in its checkpoint which steps it took: each once.
        assert ALL_STEPS in lab.training_log(study, trial.trial)
    lab.assert_resumed_well(study)
    # Without GPUs none was placed where there are some.
    assert nodes <= set(lab.cluster.pools["cpu"])


def pausing_and_stopping_reach_pods(lab: PodLab) -> None:
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
        return any(from_step > 0 for _, from_step in lab.starts(found))

    wait_for(lambda: lab.pods(name), what="the first pod")
    assert_no_pod_has_keys_of_the_store(lab, name)
    wait_for(resumed, what="a paused trial that goes on")
    lab.session.gateway.stop(lab.study(name, run_id).id, "enough")
    study = lab.ended(name, run_id)
    assert (study.state, study.reason) == ("ended", "enough")
    assert study.counts["failed"] == 0
    logs = Logs(lab.stack.object_store.store(), study.key)
    assert {ref.container for ref in logs.all()} == {"training", "agent", "restore"}


def assert_no_pod_has_keys_of_the_store(lab: PodLab, study: str) -> None:
    """Whoever reads a pod or its secret finds no key that opens more than the pod's own trial."""
    keys = json.loads((lab.stack.root / "secrets.json").read_text())
    known = {keys["s3_access_key"], keys["s3_secret_key"]}
    secrets = lab.api.list_namespaced_secret(
        lab.namespace, label_selector=f"hpo-ops/study={study}"
    ).items
    values = {
        name: base64.b64decode(value).decode()
        for secret in secrets
        for name, value in secret.data.items()
    }
    assert "HPO_TOKEN" in values
    assert known.isdisjoint(values.values())
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} & values.keys()
    specs = json.dumps([pod.to_dict() for pod in lab.pods(study)], default=str)
    assert not [key for key in known if key in specs]


@each([trials_whose_pods_are_deleted_go_on_where_they_were, pausing_and_stopping_reach_pods])
def test_studies(told: dict[Story, Future[None]], story: Story) -> None:
    told[story].result()


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
        study = lab.ended(name, run_id)
    lab.assert_never_more_gpus(watch, 2)
    assert set(watch.nodes) <= set(lab.cluster.pools["gpu"])
    assert study.counts["completed"] == 12
    # Scores by XCom are those of the ledger; the best one is what its parameters make.
    scores = {
        item["map_index"]: lab.xcom(item)
        for item in lab.instances(name, run_id)
        if item["task_id"] == "round_00.trial"
    }
    known = {trial.trial: trial.value for trial in lab.trials(study)}
    assert {score["trial"]: score["value"] for score in scores.values()} == {
        number: known[number] for number in range(4)
    }
    for trial in lab.trials(study):
        assert trial.value == pytest.approx(1 - abs(float(trial.params["x"] or 0)) / 10)
    best = lab.checkpoints(study.key).best()
    assert best is not None
    assert best.step == 9
    assert ALL_STEPS in lab.training_log(study, 0)
    # While it runs, the same stands in the task's own log.
    task_log = lab.task_log(name, run_id, "round_00.trial", map_index=0)
    assert ALL_STEPS in task_log


def test_killing_what_airflow_consists_of_loses_nothing(
    lab: PodLab, told: dict[Story, Future[None]]
) -> None:
    wait(told.values())  # no story goes on without an api-server
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
        study = lab.ended(name, run_id)
    assert study.counts["completed"] == 4
    # As if nothing had happened: a pod a trial, none started twice.
    assert len(watch.seen) == 4
    assert sorted(lab.starts(study)) == [(number, 0) for number in range(4)]


def test_no_secret_outlives_its_pod(lab: PodLab) -> None:
    def left() -> list[str]:
        found = lab.api.list_namespaced_secret(
            lab.namespace, label_selector="app.kubernetes.io/managed-by=hpo-ops"
        )
        return [secret.metadata.name for secret in found.items]

    wait_for(lambda: not left(), what="secrets to go with their pods")
    assert left() == []
