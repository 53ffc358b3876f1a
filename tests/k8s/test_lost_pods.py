"""Pods that are taken away or never start: what becomes of their trials, and what is said."""

from __future__ import annotations

from concurrent.futures import Future

import psutil
import pytest
from kubernetes.client import SchedulingV1Api

from hpo_ops.runners.kubernetes.operator import NATIVE_SIDECARS
from tests.e2e.airflow import wait_for
from tests.k8s.lab import WHOLE, PodLab, Watch, pace
from tests.k8s.pods import TOLERATE_GPU, PodRequest, Pods
from tests.k8s.stories import Story, each

IMPATIENT = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    for key in ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
]
"""Instead of the templates' 30 s."""


def a_trial_on_spot_nodes_goes_on_elsewhere_after_two_losses(lab: PodLab) -> None:
    """An eviction by Kubernetes' API, then the node itself: gone without a word."""
    name = lab.add_pod_study(
        "k8s_spot",
        flow="rolling",
        trials=1,
        parallelism=1,
        scheduler=WHOLE,
        space=pace(6.0),
        resources={"pool": "spot", "cpu": "20m", "memory": "128Mi"},
        grace=5,
        pod={"tolerations": IMPATIENT, "spec": {"terminationGracePeriodSeconds": 10}},
    )
    local = lab.cluster.local
    assert local is not None
    with Watch(lab, name) as watch:
        run_id = lab.trigger(name)
        study = lab.wait_for_step(name, run_id, 1)
        evict(lab, name)
        wait_for(lambda: len(lab.starts(study)) == 2, what="the second pod")
        lab.wait_for_step(name, run_id, lab.starts(study)[-1][1] + 1)
        local.lose("spot-0")
        try:
            study = lab.ended(name, run_id)
        finally:
            local.replace("spot-0")
    lab.assert_went_on(study, times=2)
    assert lab.ends(study)[1][1] == "its node stopped responding"
    # Without GPUs it goes on where there are none.
    assert watch.nodes == ["spot-0", "spot-0", "cpu-0"]


def evict(lab: PodLab, study: str) -> None:
    """Asks for a study's pod to go as `kubectl drain` does."""
    (pod,) = lab.pods(study)
    target = {"name": pod.metadata.name, "namespace": lab.namespace}
    version = "policy/v1" if lab.server_version >= (1, 22) else "policy/v1beta1"
    body = {"apiVersion": version, "kind": "Eviction", "metadata": target}
    lab.api.create_namespaced_pod_eviction(body=body, **target)


def a_trial_goes_on_when_its_node_was_started_again(lab: PodLab) -> None:
    """Two GPUs in one pod: the training is told of them, before and after."""
    name = lab.add_pod_study(
        "k8s_reboot",
        command="sh -c 'env | grep -E \"^(MASTER|NPROC|PET)_\"; exec python train.py'",
        trials=1,
        parallelism=1,
        scheduler=WHOLE,
        space=pace(2.0),
        resources={"gpu": 2, "cpu": "20m", "memory": "128Mi"},
        retries=0,
    )
    local = lab.cluster.local
    assert local is not None
    with Watch(lab, name) as watch:
        run_id = lab.trigger(name)
        lab.wait_for_step(name, run_id, 2)
        local.lose("gpu-0")
        local.reboot("gpu-0")
        study = lab.ended(name, run_id)
    lab.assert_went_on(study, times=1)
    assert watch.nodes == ["gpu-0", "gpu-0"]
    assert watch.most_gpus == 2
    said = lab.training_log(study).splitlines()
    assert {"MASTER_ADDR=127.0.0.1", "NPROC_PER_NODE=2", "PET_NPROC_PER_NODE=2"} <= set(said)


def a_trial_that_fills_its_disk_is_put_out_and_goes_on(lab: PodLab) -> None:
    name = lab.add_pod_study(
        "k8s_evicted",
        command="python fill.py",
        code=str(lab.training_with("fill.py", FILL)),
        trials=1,
        parallelism=1,
        scheduler={"name": "default", "max_steps": 3},
        resources={"cpu": "20m", "memory": "128Mi", "storage": "24Mi"},
        retries=0,
    )
    study = lab.ended(name, lab.trigger(name))
    assert study.counts["completed"] == 1
    outcome, reason = lab.ends(study)[0]
    assert outcome == "preempted"
    assert "Evicted" in reason
    assert "24Mi" in reason
    assert lab.starts(study) == [(0, 0), (0, 1)]


FILL = """
import os, pathlib, time
from hpo_ops.sdk import trial
seen = []
trial.checkpointed(save=lambda folder: (folder / "x").write_text("1"), load=seen.append)
for step in trial.steps(3):
    if step == 2 and not seen:
        pathlib.Path(os.environ["HPO_DIR"], "scratch").write_bytes(bytes(48 << 20))
        time.sleep(600)
    trial.report(step, accuracy=0.5)
"""


def a_trial_makes_way_for_a_pod_of_higher_priority_and_goes_on(lab: PodLab) -> None:
    name = lab.add_pod_study(
        "k8s_priority",
        trials=1,
        parallelism=1,
        scheduler=WHOLE,
        space=pace(2.0),
        resources={"pool": "gpu-shared", "gpu": 1, "cpu": "20m", "memory": "128Mi"},
        grace=5,
        retries=0,
    )
    classes = SchedulingV1Api(lab.api.api_client)
    high = f"{lab.namespace}-high"
    classes.create_priority_class({"metadata": {"name": high}, "value": 1000})
    others = Pods(lab.cluster, lab.namespace)
    try:
        run_id = lab.trigger(name)
        lab.wait_for_step(name, run_id, 2)
        # It needs all four shares of the node's GPU, which the trial has.
        urgent = PodRequest(
            "urgent",
            ("sleep", "5"),
            pool="gpu-shared",
            gpus=4,
            tolerations=[TOLERATE_GPU],
            priority_class=high,
        )
        others.start(urgent)
        study = lab.ended(name, run_id)
        assert others.phase("urgent") == "Succeeded"
    finally:
        others.remove_all()
        classes.delete_priority_class(high)
    lab.assert_went_on(study, times=1)


def an_image_that_cannot_be_pulled_fails_its_trial_with_kubernetes_own_words(
    lab: PodLab,
) -> None:
    name = lab.add_pod_study(
        "k8s_image",
        image="registry.invalid/team/model:1",
        trials=2,
        parallelism=1,
        pod={"schedule_timeout": 15},
        stop={"failures": 1.0},
    )
    study = lab.ended(name, lab.trigger(name), state="failed")
    # One after the other: the first does not end the study.
    assert study.counts["failed"] == 2
    for trial in lab.trials(study):
        # ErrImagePull, or ImagePullBackOff where that was never seen.
        assert "ImagePull" in trial.reason
        assert "registry.invalid" in trial.reason


def a_pod_that_never_starts_fails_its_trial_with_kubernetes_own_words(lab: PodLab) -> None:
    name = lab.add_pod_study(
        "k8s_pending",
        trials=2,
        parallelism=2,
        resources={"gpu": 3, "cpu": "20m", "memory": "64Mi"},
        pod={"schedule_timeout": 5},
        stop={"failures": 1.0},
    )
    study = lab.ended(name, lab.trigger(name), state="failed")
    assert study.counts["failed"] == 2
    for trial in lab.trials(study):
        assert "Unschedulable" in trial.reason
        assert "Insufficient nvidia.com/gpu" in trial.reason


def a_trial_that_runs_out_of_memory_gets_more_and_goes_on(lab: PodLab) -> None:
    name = lab.add_pod_study(
        "k8s_memory",
        command="python eat.py",
        code=str(lab.training_with("eat.py", EAT)),
        trials=1,
        parallelism=1,
        scheduler={"name": "default", "max_steps": 3},
        resources={"cpu": "20m", "memory": "64Mi", "memory_on_oom": ["512Mi"]},
    )
    study = lab.ended(name, lab.trigger(name))
    assert study.counts["completed"] == 1
    assert lab.ends(study)[0] == (
        "preempted",
        "out of memory: it needed more than 64Mi; the next attempt gets 512Mi",
    )


EAT = """
from hpo_ops.sdk import trial
state = {}
trial.checkpointed(save=lambda folder: (folder / "x").write_text("1"), load=lambda folder: None)
for step in trial.steps(3):
    if step == 2:
        state["much"] = bytearray(200 << 20)
    trial.report(step, accuracy=0.5)
"""


def a_trial_whose_agent_is_killed_loses_no_more_than_a_checkpoint(lab: PodLab) -> None:
    """A native sidecar is started again. Otherwise nothing of the training is heard any more."""
    name = lab.add_pod_study(
        "k8s_agent", flow="rolling", trials=1, parallelism=1, scheduler=WHOLE, space=pace(1.0)
    )
    run_id = lab.trigger(name)
    lab.wait_for_step(name, run_id, 2)
    kill_agent(name)
    study = lab.ended(name, run_id)
    lab.assert_went_on(study, times=0 if lab.server_version >= NATIVE_SIDECARS else 1)
    assert lab.session.gateway.reports(study.id).steps == list(range(1, 10))


def kill_agent(study: str) -> None:
    """Kills the process of a study's agent, which this machine can see."""
    (agent,) = (
        process
        for process in psutil.process_iter(["cmdline", "environ"])
        if (process.info["cmdline"] or [])[1:] == ["-m", "hpo_ops.agent", "run"]
        and process.info["environ"]["HPO_STUDY_KEY"].startswith(f"{study}/")
    )
    agent.kill()


@each(
    [
        a_trial_whose_agent_is_killed_loses_no_more_than_a_checkpoint,
        a_trial_on_spot_nodes_goes_on_elsewhere_after_two_losses,
        a_trial_that_fills_its_disk_is_put_out_and_goes_on,
        a_trial_goes_on_when_its_node_was_started_again,
        a_trial_makes_way_for_a_pod_of_higher_priority_and_goes_on,
        an_image_that_cannot_be_pulled_fails_its_trial_with_kubernetes_own_words,
        a_pod_that_never_starts_fails_its_trial_with_kubernetes_own_words,
        a_trial_that_runs_out_of_memory_gets_more_and_goes_on,
    ]
)
@pytest.mark.usefixtures("own_cluster")
def test_lost(told: dict[Story, Future[None]], story: Story) -> None:
    told[story].result()
