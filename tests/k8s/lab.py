"""A whole stack whose trials are pods of a real cluster."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubernetes.client import V1Pod

from hpo_ops.stack import Stack
from tests.cluster.cluster import Cluster
from tests.e2e.airflow import Lab

PROJECT = Path(__file__).resolve().parents[2]


class PodLab(Lab):
    """A stack and the cluster that its trials run in."""

    def __init__(self, stack: Stack, cluster: Cluster, namespace: str) -> None:
        super().__init__(stack)
        self.cluster = cluster
        self.namespace = namespace
        self.api = cluster.api()

    def add_pod_study(self, name: str, **changes: Any) -> str:
        """Drops a study in whose trials are pods."""
        values: dict[str, Any] = {
            "runner": "kubernetes",
            "resources": {"cpu": "50m", "memory": "256Mi"},
        }
        return self.add_study(name, **{**values, **changes})

    def training_with(self, name: str, text: str) -> Path:
        """A folder of code with one file."""
        folder = self.stack.dags.parent / "code" / name.partition(".")[0]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        return folder

    def task_log(self, name: str, run_id: str, task_id: str, map_index: int) -> str:
        """What stands in the log of a task's instance."""
        (instance,) = (
            item
            for item in self.instances(name, run_id)
            if (item["task_id"], item["map_index"]) == (task_id, map_index)
        )
        lines = self.airflow.log_lines(instance, attempt=1)
        return "\n".join(str(line.get("event")) for line in lines)

    def pods(self, study: str | None = None) -> list[V1Pod]:
        """The pods of trials that are there."""
        selector = "app.kubernetes.io/managed-by=hpo-ops"
        if study is not None:
            selector += f",hpo-ops/study={study}"
        found: list[V1Pod] = self.api.list_namespaced_pod(
            self.namespace, label_selector=selector
        ).items
        return found


@contextmanager
def pod_lab(cluster: Cluster, namespace: str) -> Iterator[PodLab]:
    """Starts a stack; afterwards nothing of it is left, here or in the cluster."""
    folder = Path(tempfile.mkdtemp(prefix="hpo-k8s-"))
    for name in ("dags", "examples", "k8s_pod_templates"):
        shutil.copytree(
            PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    connection = {
        "conn_type": "kubernetes",
        "extra": {"kube_config_path": str(cluster.kubeconfig), "namespace": namespace},
    }
    environment = {
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(connection),
        "HPO_AGENT_IMAGE": cluster.images.python,
        "HPO_POD_HOST": cluster.host or "",
    }
    stack = Stack(
        folder / ".hpo",
        dags=folder / "dags",
        port=0,
        s3_port=0,
        extra_environment=environment,
    )
    try:
        stack.start()
        with ExitStack() as ways:
            for address in (stack.url, stack.object_store.endpoint):
                ways.enter_context(cluster.expose(urlsplit(address).port or 80))
            yield PodLab(stack, cluster, namespace)
    finally:
        stack.stop()
        left = stack.processes()
        shutil.rmtree(folder, ignore_errors=True)
        assert left == []
