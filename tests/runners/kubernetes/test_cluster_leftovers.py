"""What is seen of a cluster, and how it is deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Never

import pytest
from kubernetes.client.exceptions import ApiException

from hpo_ops.core.runner_resources import ResourcesUnavailableError
from hpo_ops.runners.kubernetes import _cluster_leftovers
from hpo_ops.runners.kubernetes._cluster_leftovers import (
    Cluster,
    connect_by_kubeconfig,
)
from tests.runners.fake_kubernetes import NOW, FakeKubernetes


def test_pods_and_secrets_of_segments_are_seen() -> None:
    kubernetes = FakeKubernetes()
    kubernetes.add_pod("p", "s", seconds=90)
    kubernetes.add_secret("x", "t", seconds=80)
    kubernetes.add_pod("elsewhere", "u", namespace="other")
    found = Cluster(kubernetes, "default").look([], NOW)
    pod, secret = found.resources
    assert (pod.kind, secret.kind) == ("pod", "secret")
    assert found.trainings == {"s"}
    assert (pod.name, pod.namespace, pod.segment, pod.seconds) == ("p", "default", "s", 90)
    assert not pod.is_leaving
    assert not pod.is_lost
    assert (secret.name, secret.segment, secret.seconds) == ("x", "t", 80)
    assert found.namespaces == {"default"}


def test_a_pod_that_should_be_gone_long_since_is_lost() -> None:
    kubernetes = FakeKubernetes()
    kubernetes.add_pod("leaving", "s", told_to_go=1)
    kubernetes.add_pod("lost", "t", told_to_go=600)
    found = {pod.name: pod for pod in Cluster(kubernetes, "default").look([], NOW).resources}
    assert found["leaving"].is_leaving
    assert not found["leaving"].is_lost
    assert found["lost"].is_lost


def test_all_pages_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cluster_leftovers, "PAGE", 2)
    kubernetes = FakeKubernetes()
    for number in range(5):
        kubernetes.add_pod(f"p{number}", f"s{number}")
    assert len(Cluster(kubernetes, "default").look([], NOW).resources) == 5


def test_a_namespace_that_may_not_be_seen_is_said_and_does_not_hide_the_others() -> None:
    kubernetes = FakeKubernetes()
    kubernetes.forbidden = {"far"}
    kubernetes.add_pod("p", "s", namespace="near")
    cluster = Cluster(kubernetes, "default")
    found = cluster.look(["far", "near"], NOW)
    assert found.namespaces == {"default", "near"}
    assert [pod.name for pod in found.resources] == ["p"]
    assert cluster.notes[-1] == "pods in the namespace far cannot be seen: Forbidden"


def test_pods_are_seen_where_secrets_may_not_be() -> None:
    class Discreet(FakeKubernetes):
        def list_namespaced_secret(self, namespace: str, **_: object) -> Never:
            raise ApiException(status=403, reason="Forbidden")

    kubernetes = Discreet()
    kubernetes.add_pod("p", "s")
    cluster = Cluster(kubernetes, "default")
    found = cluster.look([], NOW)
    assert [pod.name for pod in found.resources] == ["p"]
    assert found.namespaces == {"default"}
    assert cluster.notes == ["secrets in the namespace default cannot be seen: Forbidden"]


def test_deleting_may_be_repeated() -> None:
    kubernetes = FakeKubernetes()
    kubernetes.add_pod("p", "s")
    kubernetes.add_pod("lost", "t")
    kubernetes.add_secret("x", "s")
    cluster = Cluster(kubernetes, "default")
    for _ in range(2):
        cluster.delete("pod", "p", "default", is_forced=False)
        cluster.delete("pod", "lost", "default", is_forced=True)
        cluster.delete("secret", "x", "default", is_forced=False)
    assert kubernetes.pods == kubernetes.secrets == {}
    assert kubernetes.grace == {"p": None, "lost": 0}


def test_other_errors_are_not_swallowed() -> None:
    class Forbidding(FakeKubernetes):
        def delete_namespaced_secret(self, name: str, namespace: str) -> None:
            raise ApiException(status=403, reason="Forbidden")

    with pytest.raises(ApiException):
        Cluster(Forbidding(), "default").delete("secret", "x", "default", is_forced=False)


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: u, namespace: training}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


def kubeconfig(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    config = pytest.importorskip("kubernetes.config")
    module = config.kube_config
    monkeypatch.setattr(module, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    monkeypatch.setattr(config, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def test_the_usual_kubeconfig_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    kubeconfig(monkeypatch, file)
    assert connect_by_kubeconfig(None).default_namespace == "training"
    assert connect_by_kubeconfig("mine").default_namespace == "mine"


def test_without_a_kubeconfig_there_is_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig(monkeypatch, tmp_path / "none")
    with pytest.raises(ResourcesUnavailableError, match="no kubeconfig can be used"):
        connect_by_kubeconfig(None)
