"""What a training can reach from inside its pod, and what a study cannot get by asking for it."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import NetworkingV1Api, V1Pod

from tests.cluster.cluster import Cluster
from tests.k8s.lab import WHOLE, PodLab, Watch
from tests.k8s.stories import Story, each

GENERIC = "hpo_pod_study"
ONE = {"flow": "rolling", "trials": 1, "parallelism": 1, "scheduler": WHOLE}
WRITABLE = ["/tmp", "/hpo"]  # noqa: S108, of a container
VARIABLES = "$(HPO_TOKEN) $(AWS_SECRET_ACCESS_KEY)"
NETWORK = Path(__file__).resolve().parents[2] / "k8s_pod_templates" / "network"

LOOKS_AROUND = '''
import json
import os
from pathlib import Path

from hpo_ops.sdk import trial


def readable_environments():
    """Variables of all processes that this one can see, by name."""
    names = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            values = (folder / "environ").read_bytes().split(b"\\0")
            names |= {value.partition(b"=")[0] for value in values}
        except OSError:
            pass
    return sorted(name.decode() for name in names)


lines = Path("/proc/self/status").read_text().splitlines()
status = dict(line.split(":", 1) for line in lines if ":" in line)
found = {
    "ids": [os.getuid(), os.getgid(), os.getgroups()],
    "capabilities": [status[name].strip() for name in ("CapEff", "CapPrm", "CapBnd")],
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "tokens": [str(path) for path in Path("/var/run/secrets").rglob("*")],
    "variables": readable_environments(),
    "commands": [path.read_bytes().decode() for path in Path("/proc").glob("[0-9]*/cmdline")],
    "home": os.access(Path.home(), os.W_OK),
    "parameter": trial.params["name"],
    "writable": [path for path in ("/", "/tmp", "/hpo", "/usr") if os.access(path, os.W_OK)],
}
print("FOUND " + json.dumps(found), flush=True)
for step in trial.steps():
    trial.report(step, 0.5)
'''


def look_around(lab: PodLab, name: str, **pod: Any) -> tuple[dict[str, Any], V1Pod]:
    """What a training finds in its pod, and the pod as Kubernetes tells it."""
    code = lab.training_with("looks_around.py", LOOKS_AROUND)
    # Kubernetes puts variables of a container in the place of their names.
    space = {"name": {"choices": [VARIABLES]}}
    command = {"command": "python looks_around.py", "code": str(code)}
    lab.add_pod_study(name, **ONE, **command, space=space, pod=pod)
    with Watch(lab, name) as watch:
        study = lab.ended(name, lab.trigger(name))
    assert study.counts["completed"] == 1
    (line,) = (it for it in lab.training_log(study).splitlines() if it.startswith("FOUND "))
    (seen,) = watch.seen.values()
    return json.loads(line.removeprefix("FOUND ")), seen


def a_training_sees_no_token_no_keys_and_no_process_of_the_agent(lab: PodLab) -> None:
    found, pod = look_around(lab, "k8s_around")
    assert found["ids"][:2] == [1000, 1000]
    assert found["writable"] == WRITABLE
    assert_has_no_rights(found)
    assert_hardened(pod)


def a_training_is_root_only_where_the_operator_allows_it(lab: PodLab) -> None:
    """The lab's policy does: for images that need it."""
    found, pod = look_around(lab, "k8s_root", run_as_user=0, read_only_root=True)
    assert found["ids"][:2] == [0, 0]
    assert found["writable"] == WRITABLE  # the root filesystem is read-only
    assert_has_no_rights(found)
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        if container.name in ("restore", "agent"):
            assert container.security_context.run_as_user == 1000


def assert_has_no_rights(found: dict[str, Any]) -> None:
    assert found["capabilities"] == ["0" * 16] * 3
    assert found["no_new_privileges"] == "1"
    assert found["seccomp"] == "2"  # a filter
    assert found["tokens"] == []
    assert not [it for it in found["variables"] if it == "HPO_TOKEN" or it.startswith("AWS_")]
    assert not [it for it in found["commands"] if "hpo_ops.agent" in it]
    assert found["parameter"] == VARIABLES
    assert found["home"]


def assert_hardened(pod: V1Pod) -> None:
    """As Kubernetes tells it."""
    spec = pod.spec
    assert spec.automount_service_account_token is False
    assert not any((spec.host_ipc, spec.host_pid, spec.host_network))
    assert not spec.share_process_namespace
    assert spec.security_context.run_as_non_root
    assert spec.security_context.run_as_user == 1000
    assert spec.security_context.seccomp_profile.type == "RuntimeDefault"
    for container in (*spec.init_containers, *spec.containers):
        context = container.security_context
        assert context.capabilities.drop == ["ALL"]
        assert context.allow_privilege_escalation is False
        assert bool(context.read_only_root_filesystem) == (container.name in ("restore", "agent"))


def a_study_with_a_hostile_pod_is_refused_before_there_is_a_pod(lab: PodLab) -> None:
    """Through the generic DAG, which takes whole studies from whoever may trigger it."""
    study = yaml.safe_load(lab.write_study("k8s_hostile", **ONE).read_text(encoding="utf-8"))
    (lab.stack.dags / "studies" / "k8s_hostile.yaml").unlink()
    study |= {"runner": "kubernetes", "pod": HOSTILE}
    with Watch(lab, "k8s_hostile") as watch:
        run_id = lab.airflow.trigger(GENERIC, {"study": study})
        assert lab.wait(GENERIC, run_id) == "failed"
    assert watch.seen == {}
    assert lab.found("k8s_hostile", run_id) is None
    said = lab.airflow.failure_of(GENERIC, run_id, "prepare")
    for key in (
        "pod.service_account is 'airflow'",
        "pod.namespace is 'kube-system'",
        "pod.spec.hostPID is not a field that a study may set",
        "pod.spec.volumes[root].hostPath.path is '/'",
        "pod.spec.containers[base].securityContext.privileged is true",
        "pod.spec.containers[agent] is a container of the platform",
    ):
        assert key in said


HOSTILE: dict[str, Any] = {
    "service_account": "airflow",
    "namespace": "kube-system",
    "spec": {
        "hostPID": True,
        "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
        "containers": [
            {
                "name": "base",
                "securityContext": {"privileged": True},
                "volumeMounts": [{"name": "root", "mountPath": "/node"}],
            },
            {"name": "agent", "command": ["sh", "-c", "env"]},
        ],
    },
}


@each(
    [
        a_training_is_root_only_where_the_operator_allows_it,
        a_training_sees_no_token_no_keys_and_no_process_of_the_agent,
        a_study_with_a_hostile_pod_is_refused_before_there_is_a_pod,
    ]
)
def test_security(told: dict[Story, Future[None]], story: Story) -> None:
    told[story].result()


def test_kubernetes_takes_the_network_policies(cluster: Cluster, namespace: str) -> None:
    """The API server checks them; the tests' own cluster has no network that enforces them."""
    api = NetworkingV1Api(cluster.api().api_client)
    made = [
        api.create_namespaced_network_policy(namespace, policy)
        for file in sorted(NETWORK.glob("*.yaml"))
        for policy in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    ]
    assert len(made) >= 4
    for policy in made:
        labels = policy.spec.pod_selector.match_labels
        assert labels == {"app.kubernetes.io/managed-by": "hpo-ops"}
