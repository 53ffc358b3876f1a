from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpo_ops.config import Pod, Resources
from hpo_ops.config.pod_policy import PodPolicy
from hpo_ops.protocol import Assignment
from hpo_ops.runners.kubernetes._pod_spec import (
    build_pod,
    merge,
    template_name,
)
from hpo_ops.runners.kubernetes._segment_pod import SegmentPod, label_value

TEMPLATES = Path(__file__).parents[3] / "k8s_pod_templates"
SECRETS = ("token", "AWS")


def template(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((TEMPLATES / f"{name}.yaml").read_text())
    return found


def plan(**changes: Any) -> SegmentPod:
    values: dict[str, Any] = {
        "assignment": Assignment(
            study="digits/run", trial=3, segment="a" * 32, params={"lr": 0.1}, metrics=["accuracy"]
        ),
        "study": "digits",
        "run_id": "manual__2026-01-02T03:04:05+00:00",
        "key": "digits/run",
        "command": "python train.py --fast 'a b'",
        "image": "team/model:1",
        "agent_image": "hpo-ops:1",
        "gateway_url": "http://gateway",
        "secret": "hpo-a",
        "code": "code/1.tar.gz",
    }
    return SegmentPod(**{**values, **changes})


def build(**changes: Any) -> dict[str, Any]:
    made = plan(**changes)
    return build_pod(template(template_name(made.resources, made.pod)), made)


def containers(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    spec = pod["spec"]
    return {item["name"]: item for item in (*spec["initContainers"], *spec["containers"])}


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in container["env"]}


def test_a_pod_restores_trains_and_has_an_agent_beside_it() -> None:
    pod = build()
    spec = pod["spec"]
    assert [item["name"] for item in spec["initContainers"]] == ["restore"]
    assert [item["name"] for item in spec["containers"]] == ["base", "agent"]
    base = containers(pod)["base"]
    assert base["image"] == "team/model:1"
    assert base["args"] == ["python", "train.py", "--fast", "a b"]
    assert base["workingDir"] == "/hpo/code"
    assert spec["restartPolicy"] == "Never"
    # The training has 30 s to save, the agent a minute on top to get the checkpoint out.
    assert spec["terminationGracePeriodSeconds"] == 90


def test_a_cluster_that_knows_sidecars_gets_the_agent_as_one() -> None:
    spec = build(has_native_sidecars=True)["spec"]
    assert [item["name"] for item in spec["initContainers"]] == ["restore", "agent"]
    assert spec["initContainers"][1]["restartPolicy"] == "Always"
    assert [item["name"] for item in spec["containers"]] == ["base"]
    # Who leaves first is another one then: both are told.
    agent, base = spec["initContainers"][1], spec["containers"][0]
    assert variables(agent)["HPO_AGENT_IS_SIDECAR"] == "1"
    assert variables(base)["HPO_AGENT_IS_SIDECAR"] == "1"
    for beside in build()["spec"]["containers"]:
        assert "HPO_AGENT_IS_SIDECAR" not in variables(beside)


@pytest.mark.parametrize("key", ["containers", "initContainers"])
@pytest.mark.parametrize("native", [False, True])
def test_what_a_template_says_of_the_agent_finds_it_on_whatever_cluster(
    key: str, native: bool
) -> None:
    said = {"name": "agent", "env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}]}
    mine = {"name": "mine", "image": "busybox"}
    pod = build_pod({"spec": {key: [said, mine]}}, plan(has_native_sidecars=native))
    at, other = ("initContainers", "containers")[:: 1 if native else -1]
    (agent,) = (item for item in pod["spec"][at] if item["name"] == "agent")
    assert agent["image"] == "hpo-ops:1"
    assert variables(agent)["HTTPS_PROXY"] == "http://proxy"
    assert "agent" not in {item["name"] for item in pod["spec"][other]}
    assert "mine" in {item["name"] for item in pod["spec"][key]}


def test_packages_are_installed_in_the_trainings_image() -> None:
    packages = ["-r", "requirements.txt", "."]
    environment = {"PIP_INDEX_URL": "https://packages.example.org"}
    resources = Resources(gpu=1, cpu="4", memory="8Gi", storage="20Gi")
    pod = build(packages=packages, environment=environment, resources=resources)
    assert [item["name"] for item in pod["spec"]["initContainers"]] == ["restore", "packages"]
    found = containers(pod)["packages"]
    assert found["image"] == "team/model:1"
    assert found["command"] == ["python", "/hpo/bin/package_install.py"]
    assert found["args"] == packages
    assert found["workingDir"] == "/hpo/code"
    assert variables(found) == {"HPO_DIR": "/hpo", **environment}
    assert found["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert "envFrom" not in found
    # What the training may use, but no GPU stands idle meanwhile.
    assert found["resources"] == {
        "requests": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "20Gi"},
        "limits": {"memory": "8Gi", "ephemeral-storage": "20Gi"},
    }
    beside = build(packages=packages, has_native_sidecars=True)["spec"]["initContainers"]
    assert [item["name"] for item in beside] == ["restore", "packages", "agent"]


def test_who_a_pod_is_stands_in_its_labels() -> None:
    metadata = build()["metadata"]
    assert metadata["labels"] == {
        "app.kubernetes.io/managed-by": "hpo-ops",
        "hpo-ops/study": "digits",
        "hpo-ops/run": label_value("manual__2026-01-02T03:04:05+00:00"),
        "hpo-ops/key": label_value("digits/run"),
        "hpo-ops/trial": "3",
        "hpo-ops/segment": "a" * 32,
    }
    assert metadata["name"] == "hpo-digits-3-aaaaaaaa"


@pytest.mark.parametrize("text", ["ok-1", "über", "a" * 80, "-x-", "a/b", "a:b", "..."])
def test_a_label_is_one_that_kubernetes_takes(text: str) -> None:
    value = label_value(text)
    assert len(value) <= 63
    assert value.replace("-", "").replace("_", "").replace(".", "").isascii()
    assert value[0].isalnum()
    assert value[-1].isalnum()


def test_labels_of_different_texts_differ() -> None:
    assert label_value("a/b") != label_value("a:b")
    assert label_value("a" * 80) != label_value("a" * 81)


def test_the_training_gets_no_secret_and_the_spec_shows_none() -> None:
    pod = build()
    base = containers(pod)["base"]
    assert "envFrom" not in base
    for name in ("restore", "agent"):
        assert containers(pod)[name]["envFrom"] == [{"secretRef": {"name": "hpo-a"}}]
    assert pod["spec"]["automountServiceAccountToken"] is False
    text = json.dumps(pod)
    assert not [word for word in SECRETS if f'"name": "{word}' in text]


def test_no_value_of_a_study_stands_for_a_variable_of_the_agents() -> None:
    """Kubernetes would put the token in the place of `$(HPO_TOKEN)`."""
    params = {"lr": "$(HPO_TOKEN)", "price": "$$5"}
    assignment = Assignment(study="s", trial=0, segment="a", params=params, metrics=["m"])
    pod = build(assignment=assignment, key="digits/$(HPO_TOKEN)")
    for name in ("restore", "agent"):
        found = variables(containers(pod)[name])
        assert found["HPO_STUDY_KEY"] == "digits/$$(HPO_TOKEN)"
        # Kubernetes makes one of two.
        read = Assignment.from_json(found["HPO_ASSIGNMENT"].replace("$$", "$"))
        assert read.params == params


@pytest.mark.parametrize(
    ("resources", "name", "gpus"),
    [
        ({}, "trial_cpu", None),
        ({"gpu": 1}, "trial_gpu", "1"),
        ({"gpu": 4}, "trial_gpu", "4"),
        ({"gpu": 0.25}, "trial_gpu_shared", "1"),
        ({"gpu": 0.5}, "trial_gpu_shared", "2"),
        ({"gpu": 0.3}, "trial_gpu_shared", "2"),
        ({"gpu": 1, "pool": "spot"}, "trial_spot", "1"),
    ],
)
def test_gpus_and_shares_of_them(resources: dict[str, Any], name: str, gpus: str | None) -> None:
    made = Resources(**resources)
    assert template_name(made, Pod()) == name
    pod = build(resources=made)
    amounts = containers(pod)["base"]["resources"]
    assert amounts["limits"].get("nvidia.com/gpu") == gpus
    assert amounts["requests"].get("nvidia.com/gpu") == gpus


def test_only_gpu_trials_tolerate_gpu_nodes() -> None:
    def tolerated(**resources: Any) -> set[str]:
        spec = build(resources=Resources(**resources))["spec"]
        return {item["key"] for item in spec["tolerations"]}

    assert "nvidia.com/gpu" not in tolerated()
    assert "nvidia.com/gpu" in tolerated(gpu=1)
    assert build(resources=Resources(gpu=1))["spec"]["nodeSelector"] == {"hpo-ops/pool": "gpu"}


def test_several_gpus_come_with_what_torchrun_reads() -> None:
    assert "PET_NPROC_PER_NODE" not in variables(containers(build())["base"])
    many = variables(containers(build(resources=Resources(gpu=4)))["base"])
    assert (many["MASTER_ADDR"], many["NPROC_PER_NODE"], many["PET_NPROC_PER_NODE"]) == (
        "127.0.0.1", "4", "4",
    )  # fmt: skip


def test_the_study_has_the_last_word_where_the_policy_lets_it() -> None:
    pod = Pod(
        node_selector={"zone": "a"},
        tolerations=({"key": "team", "operator": "Exists"},),
        priority_class="low",
        service_account="trainer",
        image_pull_secrets=("registry",),
        namespace="ml",
        spec={
            "containers": [{"name": "base", "env": [{"name": "OMP_NUM_THREADS", "value": "2"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}],
        },
    )
    policy = PodPolicy(service_accounts=("trainer",), namespaces=("ml",))
    made = build(pod=pod, resources=Resources(gpu=1), policy=policy)
    spec = made["spec"]
    assert made["metadata"]["namespace"] == "ml"
    assert spec["nodeSelector"] == {"hpo-ops/pool": "gpu", "zone": "a"}
    assert {"team", "nvidia.com/gpu"} <= {item["key"] for item in spec["tolerations"]}
    assert spec["priorityClassName"] == "low"
    assert spec["serviceAccountName"] == "trainer"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    # Merged by name: what we generate for the container stays.
    base = containers(made)["base"]
    assert base["image"] == "team/model:1"
    assert variables(base)["OMP_NUM_THREADS"] == "2"
    assert variables(base)["HPO_DIR"] == "/hpo"
    assert {"hpo", "hpo-agent", "dshm", "agent-tmp", "data"} == {
        item["name"] for item in spec["volumes"]
    }


def test_what_is_generated_goes_over_the_template() -> None:
    base = {
        "metadata": {"labels": {"team": "ml"}},
        "spec": {
            "restartPolicy": "Always",
            "containers": [
                {"name": "proxy", "image": "proxy"},
                {"name": "base", "image": "none", "tty": True},
            ],
        },
    }
    made = build_pod(base, plan())
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["metadata"]["labels"]["team"] == "ml"
    # Airflow takes the first container for the one that does the work.
    assert [item["name"] for item in made["spec"]["containers"]] == ["base", "proxy", "agent"]
    assert containers(made)["base"]["tty"] is True
    assert containers(made)["base"]["image"] == "team/model:1"


def test_merging_leaves_what_it_merges_alone() -> None:
    base = {"a": {"b": 1}, "list": [{"name": "x", "v": 1}]}
    over = {"a": {"c": 2}, "list": [{"name": "x", "w": 2}, {"name": "y"}]}
    assert merge(base, over) == {
        "a": {"b": 1, "c": 2},
        "list": [{"name": "x", "v": 1, "w": 2}, {"name": "y"}],
    }
    assert base == {"a": {"b": 1}, "list": [{"name": "x", "v": 1}]}
    assert merge({"args": ["a", "b"]}, {"args": ["c"]}) == {"args": ["c"]}
