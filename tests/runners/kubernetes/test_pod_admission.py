from __future__ import annotations

from typing import Any

import pytest

from hpo_ops.config import Pod, Resources
from hpo_ops.config.pod_policy import PodPolicy
from hpo_ops.runners.kubernetes._node_terms import required_terms
from hpo_ops.runners.kubernetes._pod_admission import (
    PodRefusedError,
    find_refusals,
    judge_namespace,
)
from tests.runners.kubernetes.test_pod_spec import build, containers

SEGMENT_SECRET = "hpo-0123456789abcdef"  # noqa: S105, a name


def training(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "base", **fields}]}


def sidecar(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "mine", "image": "busybox", **fields}]}


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {}


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    # The node.
    "privileged": (
        training(securityContext={"privileged": True}),
        "pod.spec.containers[base].securityContext.privileged is true",
    ),
    "privileged sidecar": (
        sidecar(securityContext={"privileged": True}),
        "pod.spec.containers[mine].securityContext.privileged is true",
    ),
    "privileged init container": (
        {"initContainers": [{"name": "m", "image": "i", "securityContext": {"privileged": True}}]},
        "pod.spec.initContainers[m].securityContext.privileged is true",
    ),
    "escalation": (
        training(securityContext={"allowPrivilegeEscalation": True}),
        "allowPrivilegeEscalation is true",
    ),
    "capabilities": (
        training(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
        "capabilities.add has SYS_ADMIN",
    ),
    "fewer dropped capabilities": (
        training(securityContext={"capabilities": {"drop": ["NET_RAW"]}}),
        "capabilities.drop is ['NET_RAW']",
    ),
    "root": (training(securityContext={"runAsUser": 0}), "runAsUser is 0"),
    "root of the whole pod": ({"securityContext": {"runAsUser": 0}}, "runAsUser is 0"),
    "maybe root": (training(securityContext={"runAsNonRoot": False}), "runAsNonRoot is false"),
    "no seccomp": (
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        "pod.spec.securityContext.seccompProfile",
    ),
    "unmasked /proc": (training(securityContext={"procMount": "Unmasked"}), "procMount"),
    "sysctls": ({"securityContext": {"sysctls": [{"name": "a", "value": "1"}]}}, "sysctls"),
    "SELinux": (training(securityContext={"seLinuxOptions": {"type": "spc_t"}}), "seLinuxOptions"),
    "hostPath": (volume(hostPath={"path": "/"}), "pod.spec.volumes[v].hostPath.path is '/'"),
    "hostNetwork": ({"hostNetwork": True}, "pod.spec.hostNetwork"),
    "hostPID": ({"hostPID": True}, "pod.spec.hostPID"),
    "hostIPC": ({"hostIPC": True}, "pod.spec.hostIPC"),
    "user namespaces": ({"hostUsers": True}, "pod.spec.hostUsers"),
    "host port": (training(ports=[{"containerPort": 1, "hostPort": 22}]), "hostPort"),
    "a request by the kubelet": (
        training(livenessProbe={"httpGet": {"host": "169.254.169.254", "port": 80}}),
        "livenessProbe names a host",
    ),
    "a request by the kubelet at the start": (
        sidecar(lifecycle={"postStart": {"httpGet": {"host": "10.0.0.1", "port": 80}}}),
        "lifecycle names a host",
    ),
    "a node by name": ({"nodeName": "control-plane"}, "pod.spec.nodeName"),
    "the control plane": (
        {"tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]},
        "pod.spec.tolerations[0].key",
    ),
    "every taint": ({"tolerations": [{"operator": "Exists"}]}, "pod.spec.tolerations[0]"),
    "another pool": ({"nodeSelector": {"hpo-ops/pool": "gpu"}}, "pod.spec.nodeSelector"),
    "GPUs beside the lease": (
        sidecar(resources={"limits": {"nvidia.com/gpu": 8}}),
        "resources.limits has nvidia.com/gpu",
    ),
    "a device": (training(volumeDevices=[{"name": "v", "devicePath": "/d"}]), "volumeDevices"),
    "NFS": (volume(nfs={"server": "nas", "path": "/"}), "pod.spec.volumes[v].nfs"),
    "CSI": (volume(csi={"driver": "secrets-store.csi.k8s.io"}), "pod.spec.volumes[v].csi"),
    "a volume of a later Kubernetes": (volume(newKind={"any": 1}), "pod.spec.volumes[v].newKind"),
    "a copy of another claim": (
        volume(
            ephemeral={
                "volumeClaimTemplate": {"spec": {"dataSource": {"kind": "PersistentVolumeClaim"}}}
            }
        ),
        "volumeClaimTemplate.spec.dataSource",
    ),
    "mounts that spread": (
        {
            **volume(emptyDir={}),
            **training(
                volumeMounts=[
                    {"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}
                ]
            ),
        },
        "mountPropagation",
    ),
    # The cluster.
    "a service account": ({"serviceAccountName": "admin"}, "pod.spec.serviceAccountName"),
    "its old name": ({"serviceAccount": "admin"}, "pod.spec.serviceAccount "),
    "its token": ({"automountServiceAccountToken": True}, "pod.spec.automountServiceAccountToken"),
    "a projected token": (
        volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}),
        "pod.spec.volumes[v].projected.sources[0].serviceAccountToken",
    ),
    "a system priority": (
        {"priorityClassName": "system-node-critical"},
        "pod.spec.priorityClassName is 'system-node-critical'",
    ),
    "the token in a secret of old": (
        volume(secret={"secretName": "airflow-token-x7k2p"}),
        "looks like the token of a service account",
    ),
    "a field of a later Kubernetes": ({"newField": {"any": 1}}, "pod.spec.newField"),
    # The platform's containers, volumes and secrets.
    "the agent's command": (
        {"containers": [{"name": "agent", "command": ["sh", "-c", "env"]}]},
        "pod.spec.containers[agent] is a container of the platform",
    ),
    "the agent as a sidecar": (
        {"initContainers": [{"name": "agent", "command": ["sh"]}]},
        "pod.spec.initContainers[agent]",
    ),
    "the agent's proxy": (
        {"containers": [{"name": "agent", "env": [{"name": "HTTPS_PROXY", "value": "http://a"}]}]},
        "pod.spec.containers[agent]",
    ),
    "the image of restore": (
        {"initContainers": [{"name": "restore", "image": "evil"}]},
        "pod.spec.initContainers[restore]",
    ),
    "packages": (
        {"initContainers": [{"name": "packages", "envFrom": []}]},
        "pod.spec.initContainers[packages]",
    ),
    "a second base": (
        {"initContainers": [{"name": "base", "image": "evil"}]},
        "pod.spec.initContainers[base]",
    ),
    "the training's command": (training(command=["sh"]), "pod.spec.containers[base].command"),
    "the training's image": (training(image="evil"), "pod.spec.containers[base].image"),
    "a segment's secret as variables": (
        training(envFrom=[{"secretRef": {"name": SEGMENT_SECRET}}]),
        "pod.spec.containers[base].envFrom[0].secretRef.name",
    ),
    "a segment's secret as a variable": (
        training(
            env=[
                {
                    "name": "T",
                    "valueFrom": {"secretKeyRef": {"name": SEGMENT_SECRET, "key": "HPO_TOKEN"}},
                }
            ]
        ),
        "pod.spec.containers[base].env[T].valueFrom.secretKeyRef.name",
    ),
    "a segment's secret as files": (
        volume(secret={"secretName": SEGMENT_SECRET}),
        "pod.spec.volumes[v].secret.secretName",
    ),
    "a segment's secret among others": (
        volume(projected={"sources": [{"secret": {"name": SEGMENT_SECRET}}]}),
        "pod.spec.volumes[v].projected.sources[0].secret.name",
    ),
    "a segment's secret beside a harmless name": (
        volume(projected={"sources": [{"secret": {"secretName": "a", "name": SEGMENT_SECRET}}]}),
        "pod.spec.volumes[v].projected.sources[0].secret.name",
    ),
    "a segment's secret for images": (
        {"imagePullSecrets": [{"name": SEGMENT_SECRET}]},
        "pod.spec.imagePullSecrets",
    ),
    "processes of all containers": (
        {"shareProcessNamespace": True},
        "pod.spec.shareProcessNamespace",
    ),
    "a debugger": (
        {"ephemeralContainers": [{"name": "d", "image": "busybox"}]},
        "pod.spec.ephemeralContainers",
    ),
    "another address of the gateway": (
        {"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["airflow"]}]},
        "pod.spec.hostAliases",
    ),
    "another DNS": ({"dnsConfig": {"nameservers": ["1.2.3.4"]}}, "pod.spec.dnsConfig"),
    "the workspace as another volume": (
        {"volumes": [{"name": "hpo", "persistentVolumeClaim": {"claimName": "mine"}}]},
        "pod.spec.volumes[hpo] is a volume of the platform",
    ),
    "the workspace elsewhere": (
        training(volumeMounts=[{"name": "hpo", "mountPath": "/elsewhere"}]),
        "pod.spec.containers[base].volumeMounts[hpo]",
    ),
    "a part of the workspace": (
        sidecar(volumeMounts=[{"name": "hpo", "mountPath": "/x", "subPath": "../.."}]),
        "has a subPath",
    ),
    "the agent's files": (
        sidecar(volumeMounts=[{"name": "agent-tmp", "mountPath": "/x"}]),
        "pod.spec.containers[mine].volumeMounts[agent-tmp]",
    ),
    "the agent's files as a volume of the same name": (
        {
            "volumes": [{"name": "agent-tmp", "emptyDir": {}}],
            **training(volumeMounts=[{"name": "agent-tmp", "mountPath": "/x"}]),
        },
        "pod.spec.volumes[agent-tmp] is a volume of the platform",
    ),
    "the agent's own directory": (
        sidecar(volumeMounts=[{"name": "hpo-agent", "mountPath": "/x"}]),
        "pod.spec.containers[mine].volumeMounts[hpo-agent]",
    ),
    "the agent's own directory as a volume of the same name": (
        {
            "volumes": [{"name": "hpo-agent", "emptyDir": {}}],
            **training(volumeMounts=[{"name": "hpo-agent", "mountPath": "/x"}]),
        },
        "pod.spec.volumes[hpo-agent] is a volume of the platform",
    ),
    "endless nesting": ({"affinity": nested(500)}, "pod.spec is nested more than"),
    "the directory of the protocol": (
        training(env=[{"name": "HPO_DIR", "value": "/x"}]),
        "pod.spec.containers[base].env[HPO_DIR]",
    ),
    "a pod that starts again": ({"restartPolicy": "Always"}, "pod.spec.restartPolicy"),
    # Ways around the merge, which finds items by name and puts null in a value's place.
    "no containers": ({"containers": None}, "pod.spec.containers is null"),
    "containers without names": ({"containers": [{"image": "i"}]}, "pod.spec.containers[0]"),
    "containers as text": ({"containers": "none"}, "pod.spec.containers is 'none'"),
    "no protection": (training(securityContext=None), "securityContext is null"),
    "no mounts": (training(volumeMounts=None), "volumeMounts is null"),
    "volumes without names": ({"volumes": [{"emptyDir": {}}]}, "pod.spec.volumes[0]"),
}


@pytest.mark.parametrize(("spec", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_spec_is_refused_with_its_key(spec: dict[str, Any], problem: str) -> None:
    pod = Pod(spec=spec)
    with pytest.raises(PodRefusedError) as refused:
        build(pod=pod)
    assert any(problem in line for line in refused.value.problems), refused.value.problems
    assert find_refusals(pod, PodPolicy()) == refused.value.problems


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"service_account": "admin"}, "pod.service_account is 'admin'"),
        ({"priority_class": "system-cluster-critical"}, "pod.priority_class is"),
        ({"image_pull_secrets": (SEGMENT_SECRET,)}, "pod.image_pull_secrets is"),
        ({"tolerations": ({"operator": "Exists"},)}, "pod.tolerations[0]"),
        ({"node_selector": {"hpo-ops/pool": "gpu"}}, "pod.node_selector"),
        ({"run_as_user": 0}, "pod.run_as_user is 0"),
    ],
)
def test_hostile_keys_beside_the_spec_are_refused_too(keys: dict[str, Any], problem: str) -> None:
    (found,) = find_refusals(Pod(**keys), PodPolicy())
    assert found.startswith(problem)


def test_variables_of_the_platform_are_not_for_studies() -> None:
    (found,) = find_refusals(Pod(), PodPolicy(), environment={"HPO_DIR": "/x", "MINE": "1"})
    assert found.startswith("env.HPO_DIR is")


HONEST: dict[str, dict[str, Any]] = {
    "data": {
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "imagenet", "readOnly": True}},
            {"name": "config", "configMap": {"name": "settings"}},
            {"name": "keys", "secret": {"secretName": "wandb"}},
            {"name": "scratch", "emptyDir": {"medium": "Memory"}},
            {"name": "big", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {}}}}},
            {"name": "all", "projected": {"sources": [{"secret": {"name": "hub"}}]}},
        ],
        **training(
            volumeMounts=[{"name": "data", "mountPath": "/data", "subPath": "train"}],
            envFrom=[{"secretRef": {"name": "wandb"}, "prefix": "W_"}],
            env=[
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "k"}}},
                {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ],
        ),
    },
    "scheduling": {
        "affinity": {"podAntiAffinity": {}},
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "team", "operator": "Exists"}],
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "priorityClassName": "batch",
        "runtimeClassName": "nvidia",
        "schedulerName": "volcano",
        "terminationGracePeriodSeconds": 300,
        "imagePullSecrets": [{"name": "registry"}],
    },
    "resources": training(resources={"limits": {"rdma/hca": 1, "hugepages-2Mi": "64Mi"}}),
    "a sidecar": {
        "containers": [
            {
                "name": "board",
                "image": "team/board:1",
                "command": ["board", "/hpo"],
                "ports": [{"containerPort": 6006}],
                "readinessProbe": {"httpGet": {"port": 6006}},
                "volumeMounts": [{"name": "hpo", "mountPath": "/hpo", "readOnly": True}],
                "securityContext": {"readOnlyRootFilesystem": True, "runAsUser": 2000},
            }
        ],
        "initContainers": [{"name": "fetch", "image": "team/fetch", "command": ["fetch"]}],
    },
    "another user": {"securityContext": {"runAsUser": 2000, "fsGroup": None, "runAsGroup": 0}},
}


@pytest.mark.parametrize("spec", HONEST.values(), ids=HONEST)
def test_what_honest_studies_ask_for_is_built(spec: dict[str, Any]) -> None:
    pod = build(pod=Pod(spec=spec))
    assert {"base", "agent", "restore"} <= set(containers(pod))
    for key in set(spec) - {"containers", "initContainers", "volumes", "securityContext"}:
        assert key in pod["spec"]


ALLOWED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"security_context": ["privileged"]},
        {"spec": training(securityContext={"privileged": True})},
    ),
    (
        {"capabilities": ["IPC_LOCK"]},
        {"spec": training(securityContext={"capabilities": {"add": ["IPC_LOCK"]}})},
    ),
    ({"root": True}, {"run_as_user": 0}),
    ({"root": True}, {"spec": training(securityContext={"runAsUser": 0, "runAsNonRoot": False})}),
    ({"host_paths": ["/data/"]}, {"spec": volume(hostPath={"path": "/data/sets"})}),
    ({"spec_fields": ["hostNetwork"]}, {"spec": {"hostNetwork": True}}),
    ({"volumes": ["nfs"]}, {"spec": volume(nfs={"server": "nas", "path": "/"})}),
    ({"service_accounts": ["train*"]}, {"service_account": "trainer"}),
    ({"priority_classes": ["system-x"]}, {"priority_class": "system-x"}),
    (
        {"tolerations": ["node-role.kubernetes.io/edge"]},
        {"tolerations": ({"key": "node-role.kubernetes.io/edge", "operator": "Exists"},)},
    ),
    (
        {"secrets": ["airflow-token-x7k2p"]},
        {"spec": volume(secret={"secretName": "airflow-token-x7k2p"})},
    ),
]


@pytest.mark.parametrize(("policy", "pod"), ALLOWED)
def test_the_operator_can_allow_it(policy: dict[str, Any], pod: dict[str, Any]) -> None:
    asked = Pod(**pod)
    assert find_refusals(asked, PodPolicy()) != []
    assert find_refusals(asked, PodPolicy(**policy)) == []
    build(pod=asked, policy=PodPolicy(**policy))


@pytest.mark.parametrize(
    ("policy", "pod"),
    [
        ({"secrets": ["team-*"]}, {"spec": volume(secret={"secretName": "airflow-db"})}),
        ({"secrets": ["*"]}, {"spec": volume(secret={"secretName": SEGMENT_SECRET})}),
        ({"secrets": [SEGMENT_SECRET]}, {"spec": volume(secret={"secretName": SEGMENT_SECRET})}),
        ({"claims": ["a"]}, {"spec": volume(persistentVolumeClaim={"claimName": "b"})}),
        ({"config_maps": ["a"]}, {"spec": volume(configMap={"name": "b"})}),
        ({"images": ["hub/team/*"]}, {"spec": sidecar()}),
        ({"node_labels": ["zone"]}, {"node_selector": {"disk": "ssd"}}),
        ({"tolerations": ["team"]}, {"tolerations": ({"key": "gpu"},)}),
        ({"priority_classes": []}, {"priority_class": "low"}),
        ({"host_paths": ["/data"]}, {"spec": volume(hostPath={"path": "/data/../etc"})}),
        ({"host_paths": ["/data"]}, {"spec": volume(hostPath={"path": "/database"})}),
    ],
)
def test_the_operator_can_allow_less(policy: dict[str, Any], pod: dict[str, Any]) -> None:
    assert find_refusals(Pod(**pod), PodPolicy(**policy)) != []


def test_images_and_templates_are_the_operators_to_limit() -> None:
    policy = PodPolicy(images=("hub/team/*",), templates=("trial_cpu",))
    assert find_refusals(Pod(), policy, image="hub/team/model:1", template="trial_cpu") == []
    assert len(find_refusals(Pod(), policy, image="hub/teams:1", template="trial_gpu")) == 2
    with pytest.raises(PodRefusedError, match="trial_gpu"):
        build(policy=PodPolicy(templates=("trial_cpu",)), resources=Resources(gpu=1))
    # The platform's own image is no choice of the study's.
    build(policy=PodPolicy(images=("hub/team/*",)), names_image=False)


def test_a_namespace_is_that_of_the_connection_or_one_that_the_operator_names() -> None:
    policy = PodPolicy(namespaces=("ml-*",))
    assert judge_namespace(None, policy, own="default") == []
    assert judge_namespace("default", policy, own="default") == []
    assert judge_namespace("ml-vision", policy, own="default") == []
    (found,) = judge_namespace("kube-system", policy, own="default")
    assert found.startswith("pod.namespace is 'kube-system', but studies may not use it")


def test_a_message_says_how_the_operator_allows_it() -> None:
    (found,) = find_refusals(Pod(spec=training(securityContext={"privileged": True})), PodPolicy())
    assert found == (
        "pod.spec.containers[base].securityContext.privileged is true, but studies may not set "
        "that; the operator allows it with security_context: [privileged] in the pod policy "
        "(HPO_POD_POLICY)"
    )


def affinity(*terms: Any) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
            "podAntiAffinity": {"mine": 1},
        }
    }


def test_a_study_narrows_the_nodes_of_its_template_and_never_widens_them() -> None:
    """The template of CPU trials keeps off the nodes of other pools."""
    fast = {"key": "disk", "operator": "In", "values": ["ssd"]}
    any_node = {"key": "hpo-ops/pool", "operator": "Exists"}
    pod = Pod(spec=affinity({"matchExpressions": [fast]}, {"matchExpressions": [any_node]}))
    found = build(pod=pod)["spec"]["affinity"]
    terms = required_terms({"affinity": found})
    keeps_off = {
        "key": "hpo-ops/pool",
        "operator": "NotIn",
        "values": ["gpu", "gpu-shared", "spot"],
    }
    assert terms == [
        {"matchExpressions": [keeps_off, fast]},
        {"matchExpressions": [keeps_off, any_node]},
    ]
    assert found["podAntiAffinity"] == {"mine": 1}


@pytest.mark.parametrize(
    "spec", [{"affinity": "any"}, {"affinity": {"nodeAffinity": []}}, affinity("any"), affinity(1)]
)
def test_an_affinity_that_is_none_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(PodRefusedError, match=r"pod\.spec\.affinity"):
        build(pod=Pod(spec=spec))
