"""A whole stack whose trials are pods of a real cluster."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from kubernetes.client import V1Pod

from hpo_ops.checkpoints import Logs
from hpo_ops.client import Progress, TrialSummary
from hpo_ops.runners.kubernetes.operator import NATIVE_SIDECARS, read_server_version
from hpo_ops.stack import Stack
from tests.cluster.cluster import Cluster
from tests.cluster.forward import Valve
from tests.e2e.airflow import PATIENCE, QUIET, Lab, wait_for
from tests.k8s.rights import least_rights

PROJECT = Path(__file__).resolve().parents[2]
GPU = "nvidia.com/gpu"
WHOLE = {"name": "default", "max_steps": 9}
ALL_STEPS = "trained [1, 2, 3, 4, 5, 6, 7, 8, 9]"
"""What a training says at its end, from its checkpoint, when it took each step once."""


def pace(seconds: float) -> dict[str, Any]:
    """A space whose trials take so long for a step."""
    return {"x": {"float": [-1, 1]}, "pause": {"choices": [seconds]}}


class PodLab(Lab):
    """A stack and the cluster that its trials run in."""

    def __init__(self, stack: Stack, cluster: Cluster, namespace: str) -> None:
        super().__init__(stack)
        self.cluster = cluster
        self.namespace = namespace
        self.api = cluster.api()

    @cached_property
    def server_version(self) -> tuple[int, int]:
        """Which Kubernetes it is."""
        return read_server_version(self.api)

    def pause_dag(self, dag_id: str, *, is_paused: bool = True) -> None:
        """Switches a DAG off, or on."""
        self.airflow.wait_for_dag(dag_id, seconds=PATIENCE)
        self.airflow.request("PATCH", f"/dags/{dag_id}", json={"is_paused": is_paused})

    def add_pod_study(self, name: str, **changes: Any) -> str:
        """Drops a study in whose trials are pods."""
        values: dict[str, Any] = {
            "runner": "kubernetes",
            "resources": {"cpu": "20m", "memory": "128Mi"},
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

    def found(self, name: str, run_id: str) -> Progress | None:
        """The study, once it is in the ledger."""
        try:
            return self.session.gateway.find(name, run_id)
        except LookupError:
            return None

    def ended(self, name: str, run_id: str, state: str = "success") -> Progress:
        """Waits for a study's end, and for that of its last pod."""
        assert self.wait(name, run_id) == state
        wait_for(lambda: not self.pods(name), what=f"the last pod of {name} to go")
        return self.study(name, run_id)

    def trials(self, study: Progress) -> list[TrialSummary]:
        return self.session.gateway.trials(study.id)

    def events(self, study: Progress, kind: str) -> list[dict[str, Any]]:
        """What happened of one kind, in order."""
        found = self.session.gateway.events(study.id, limit=10_000)
        return [event for event in found if event["kind"] == kind]

    def starts(self, study: Progress) -> list[tuple[int, int]]:
        """Trial and first step of every segment, in the order in which they began."""
        begun = self.events(study, "segment started")
        return [(event["trial"], event["data"]["from_step"]) for event in begun]

    def ends(self, study: Progress) -> list[tuple[str, str]]:
        """Outcome and reason of every segment, in the order in which they ended."""
        over = self.events(study, "segment ended")
        return [(event["data"]["outcome"], event["data"]["reason"]) for event in over]

    def wait_for_step(self, name: str, run_id: str, step: int = 1) -> Progress:
        """Waits until a checkpoint of the study's first trial is in the store."""

        def look() -> Progress | None:
            study = self.found(name, run_id)
            if study is None:
                return None
            saved = [event["data"]["step"] for event in self.events(study, "checkpoint")]
            return study if max(saved, default=0) >= step else None

        found: Progress = wait_for(look, what=f"a checkpoint of {name} at step {step}")
        return found

    def training_log(self, study: Progress, trial: int = 0) -> str:
        """What the trainings of a trial have printed, from the store."""
        logs = Logs(self.stack.object_store.store(), study.key)
        refs = [ref for ref in logs.all(trial) if ref.container == "training"]
        assert refs, f"there is no log of trial {trial}: {self._story(study, trial, logs)}"
        return b"".join(part for ref in refs for part in logs.read(ref)).decode()

    def _story(self, study: Progress, trial: int, logs: Logs) -> str:
        """What is known of a trial, where it was not as expected."""
        events = [
            (event["kind"], event["data"])
            for event in self.session.gateway.events(study.id, limit=10_000)
            if event["trial"] == trial
        ]
        return "\n".join(map(str, [*logs.parts().items(), *events]))

    def assert_went_on(self, study: Progress, *, times: int) -> None:
        """A study's only trial completed, and each segment began at the last whole checkpoint."""
        assert study.counts["completed"] == 1, self.ends(study)
        assert study.counts["failed"] == 0
        assert ALL_STEPS in self.training_log(study)
        assert [outcome for outcome, _ in self.ends(study)] == ["preempted"] * times + [
            "completed"
        ]
        self.assert_resumed_well(study)

    def assert_resumed_well(self, study: Progress) -> None:
        """A segment begins at the trial's last whole checkpoint, never at an earlier one."""
        saved: dict[int, int] = {}
        for event in self.session.gateway.events(study.id, limit=10_000):
            trial = event["trial"]
            if event["kind"] == "checkpoint":
                saved[trial] = max(saved.get(trial, 0), event["data"]["step"])
            elif event["kind"] == "segment started":
                assert event["data"]["from_step"] == saved.get(trial, 0)

    def assert_never_more_gpus(self, watch: Watch, count: int) -> None:
        """A study's pods had so many GPUs at a time, and no pod was made that had to wait."""
        assert watch.most_placed_gpus == count
        # Native sidecars leave a moment after their trial: for that long the next pod may wait.
        assert watch.most_gpus == count or self.server_version >= NATIVE_SIDECARS

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
    def store_behind(self, valve: Valve) -> Iterator[dict[str, Any]]:
        """A way to the store of its own; what to write under `pod` for agents to take it.

        What agents are told is the operator's, so it stands in a template.
        """
        port = urlsplit(self.stack.object_store.endpoint).port or 80
        with self.cluster.expose(port, valve=valve) as own:
            endpoint = f"http://{self.cluster.host}:{own}"
            variable = {"name": "AWS_ENDPOINT_URL_S3", "value": endpoint}
            agent = {"name": "agent", "env": [variable]}
            template = {"kind": "Pod", "spec": {"containers": [agent]}}
            file = self.stack.dags.parent / "k8s_pod_templates" / f"trial_store_{own}.yaml"
            file.write_text(yaml.safe_dump(template), encoding="utf-8")
            yield {"template": file.stem}


class Watch:
    """Looks at a study's pods, again and again, in the background.

    Attributes:
        seen: Each pod by its name, as it was seen last; in the order of their creation.
        most_gpus: The most GPUs that its pods had or waited for at once.
        most_placed_gpus: The most that they had at once.
    """

    def __init__(self, lab: PodLab, study: str) -> None:
        self._lab, self._study = lab, study
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.seen: dict[str, V1Pod] = {}
        self.most_gpus = self.most_placed_gpus = 0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def nodes(self) -> list[str]:
        """Where the pods were, in the order of their creation."""
        return [pod.spec.node_name for pod in self.seen.values() if pod.spec.node_name]

    def _look(self) -> None:
        while not self._is_over.wait(0.5):
            pods = self._lab.pods(self._study)
            self.seen |= {pod.metadata.name: pod for pod in pods}
            busy = [pod for pod in pods if pod.status.phase in ("Pending", "Running")]
            self.most_gpus = max(self.most_gpus, sum(map(gpus, busy)))
            placed = [pod for pod in busy if pod.spec.node_name]
            self.most_placed_gpus = max(self.most_placed_gpus, sum(map(gpus, placed)))


def gpus(pod: V1Pod) -> int:
    """The GPUs that a pod's training has."""
    limits = pod.spec.containers[0].resources.limits or {}
    return int(limits.get(GPU, 0))


@contextmanager
def pod_lab(cluster: Cluster, namespace: str) -> Iterator[PodLab]:
    """Starts a stack with the rights it needs; afterwards nothing of it is left, here or there."""
    folder = Path(tempfile.mkdtemp(prefix="hpo-k8s-"))
    for name in ("dags", "examples", "k8s_pod_templates"):
        shutil.copytree(
            PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    with least_rights(cluster, namespace, folder / "kubeconfig") as kubeconfig:
        yield from _run_stack(cluster, namespace, folder, kubeconfig)


def _run_stack(
    cluster: Cluster, namespace: str, folder: Path, kubeconfig: Path
) -> Iterator[PodLab]:
    policy = folder / "pod_policy.yaml"
    policy.write_text("root: true\n", encoding="utf-8")
    connection = {
        "conn_type": "kubernetes",
        "extra": {"kube_config_path": str(kubeconfig), "namespace": namespace},
    }
    environment = {
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(connection),
        "HPO_AGENT_IMAGE": cluster.images.python,
        "HPO_POD_HOST": cluster.host or "",
        "HPO_POD_POLICY": str(policy),
        **QUIET,
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
            lab = PodLab(stack, cluster, namespace)
            lab.pause_dag("hpo_reconcile")
            yield lab
    finally:
        stack.stop()
        left = stack.processes()
        shutil.rmtree(folder, ignore_errors=True)
        assert left == []
