from __future__ import annotations

from typing import Any

import pytest

from hpo_ops.config import Pod, Resources
from hpo_ops.config.pod_policy import PodPolicy
from hpo_ops.runners.kubernetes._pod_spec import build_pod
from tests.runners.kubernetes.test_pod_spec import build, containers, plan, template

ROOT = PodPolicy(root=True)
TEMPORARY = "/tmp"  # noqa: S108, of a container


@pytest.mark.parametrize("native", [False, True])
def test_no_container_runs_as_root_or_can_become_it(native: bool) -> None:
    mine = {"initContainers": [{"name": "mine", "image": "busybox"}]}
    pod = build(packages=["."], has_native_sidecars=native, pod=Pod(spec=mine))
    assert pod["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    found = containers(pod)
    assert set(found) == {"restore", "packages", "mine", "base", "agent"}
    for container in found.values():
        context = container["securityContext"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["allowPrivilegeEscalation"] is False
        is_platform = container["name"] in ("restore", "agent")
        assert context.get("readOnlyRootFilesystem", False) is is_platform


def test_agents_write_to_the_workspace_and_to_a_tmp_of_their_own() -> None:
    found = containers(build())
    for name in ("restore", "agent"):
        assert {it["mountPath"] for it in found[name]["volumeMounts"]} == {
            "/hpo",
            "/hpo-agent",
            TEMPORARY,
        }
    trainings = {it["name"] for it in found["base"]["volumeMounts"]}
    assert not trainings & {"agent-tmp", "hpo-agent"}


def test_a_training_whose_image_is_read_only_has_a_tmp() -> None:
    pod = build(pod=Pod(read_only_root=True), packages=["."])
    for name in ("base", "packages"):
        found = containers(pod)[name]
        assert found["securityContext"]["readOnlyRootFilesystem"] is True
        assert {"name": "training-tmp", "mountPath": TEMPORARY} in found["volumeMounts"]


@pytest.mark.parametrize(
    ("user", "policy", "whole", "agent"),
    [
        (2000, PodPolicy(), (True, 2000), 2000),
        ("image", PodPolicy(), (True, None), 1000),  # Kubernetes refuses an image with root
        ("image", ROOT, (None, None), 1000),
        (0, ROOT, (False, 0), 1000),
    ],
)
def test_the_user_is_the_studys_choice_but_for_root(
    user: Any, policy: PodPolicy, whole: tuple[bool | None, int | None], agent: int
) -> None:
    pod = build(pod=Pod(run_as_user=user), policy=policy)
    context = pod["spec"]["securityContext"]
    assert (context.get("runAsNonRoot"), context.get("runAsUser")) == whole
    # The platform's own containers never run as root; the agent reads what the training writes.
    for name in ("restore", "agent"):
        own = containers(pod)[name]["securityContext"]
        assert (own["runAsNonRoot"], own["runAsUser"]) == (True, agent)


def test_no_token_is_mounted_unless_the_operator_says_so() -> None:
    asked = Pod(service_account="trainer")
    named = PodPolicy(service_accounts=("trainer",))
    for pod, policy, has_token in [
        (Pod(), PodPolicy(service_account_token=True), False),
        (asked, named, False),
        (asked, named.model_copy(update={"service_account_token": True}), True),
    ]:
        spec = build(pod=pod, policy=policy)["spec"]
        assert spec["automountServiceAccountToken"] is has_token


def test_a_template_has_the_last_word_on_its_pool() -> None:
    lock = {"capabilities": {"add": ["IPC_LOCK"]}}
    own = {
        "spec": {
            "securityContext": {"runAsUser": 5000},
            "containers": [{"name": "base", "securityContext": lock}],
        }
    }
    pod = build_pod(own, plan())
    assert pod["spec"]["securityContext"]["runAsUser"] == 5000
    context = containers(pod)["base"]["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert own["spec"]["containers"][0] == {"name": "base", "securityContext": lock}


def test_only_the_pool_of_shared_gpus_has_the_nodes_ipc() -> None:
    for resources in ({}, {"gpu": 1}, {"pool": "spot"}):
        assert "hostIPC" not in build(resources=Resources(**resources))["spec"]
    assert template("trial_gpu_shared")["spec"]["hostIPC"] is True


def test_a_volume_can_keep_its_group() -> None:
    context = build(pod=Pod(spec={"securityContext": {"fsGroup": None}}))["spec"]
    assert context["securityContext"]["fsGroup"] is None
