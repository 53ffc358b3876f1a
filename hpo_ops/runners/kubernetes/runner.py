"""The runner `kubernetes`, which runs each segment of a trial as a pod.

A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpo_ops.config.pod_sections import WHOLE_GPUS, amount
from hpo_ops.config.runner_port import Runner
from hpo_ops.core.runner_resources import RunnerResources
from hpo_ops.protocol import Provenance
from hpo_ops.runners.platform_images import training_image

if TYPE_CHECKING:
    from hpo_ops.airflow.trial_task import TrialTask
    from hpo_ops.config import StudyConfig

CLUSTER_VARIABLES = ("AIRFLOW_CONN_KUBERNETES_DEFAULT", "KUBERNETES_SERVICE_HOST")
"""Variables that are set if Airflow has a connection to a cluster or itself runs in a cluster."""


class KubernetesRunner:
    """Runs each segment as a pod with the settings `resources` and `pod` of its study.

    A study uses the pool (a shared amount of resources) that `resources.pool` names, or else a
    pool that follows from the GPUs that the study requests. The capacity of a pool with GPUs is
    the number of GPUs of its nodes. Other pools are unlimited, and the cluster itself queues pods
    that do not fit.
    """

    name = "kubernetes"
    generic_dag = "hpo_pod_study"
    runs_images = True
    packs_code = True
    reacts_to_interruptions = True
    log_containers = ("training", "agent", "restore", "packages")
    namespace_key = ("pod", "namespace")
    job_note = ""

    def check_study(self, study: StudyConfig) -> None:
        resources = study.resources
        if study.allocator is None or not resources.gpu:
            return
        if resources.gpu % 1:
            raise ValueError(
                f"resources.gpu is {resources.gpu:g}, but must be an integer with an allocator, "
                "which gives trials shares of GPUs itself"
            )
        if study.allocator.max_share > 1 and resources.pool_name in WHOLE_GPUS:
            raise ValueError(
                f"allocator.max_share is {study.allocator.max_share}, but GPUs of the pool "
                f"{resources.pool_name} cannot be shared (resources.pool: gpu-shared)"
            )

    def pool(self, study: StudyConfig) -> str:
        return study.resources.pool_name

    def lease(self, study: StudyConfig) -> float:
        return study.resources.lease

    def max_units(self, study: StudyConfig) -> int | None:
        shares_gpus = study.allocator is not None and study.allocator.max_share > 1
        # A pod cannot have two shared GPUs to itself.
        return 1 if shares_gpus and study.resources.gpu else None

    def granted(self, study: StudyConfig, units: float) -> dict[str, float]:
        resources = study.resources.scaled(units)
        return {"units": units, "gpu": resources.gpu, "cpu": float(amount(resources.cpu))}

    def requested(self, study: StudyConfig) -> dict[str, Any]:
        return study.resources.model_dump(
            mode="json", exclude_none=True, exclude={"memory_on_oom"}
        )

    def provenance(self, study: StudyConfig, environment: Mapping[str, str]) -> Provenance:
        return Provenance(image=study.image or training_image(environment))

    def cache_parts(self, study: StudyConfig) -> dict[str, Any]:
        # Default values are left out, so that scores cached by earlier versions are still found.
        parts: dict[str, Any] = {}
        if pod := study.pod.model_dump(mode="json", exclude_defaults=True):
            parts["pod"] = pod
        if not study.install:
            parts["install"] = False
        return parts

    def job_priority(self, environment: Mapping[str, str]) -> int:
        return 10 if any(environment.get(name) for name in CLUSTER_VARIABLES) else 0

    def initial_pools(self) -> Mapping[str, float]:
        return {}

    def operator(self) -> type[TrialTask]:
        from hpo_ops.runners.kubernetes.operator import TrialPodOperator

        return TrialPodOperator

    def find_refusals(self, study: StudyConfig) -> list[str]:
        from hpo_ops.runners.kubernetes._pod_checks import find_study_refusals

        return find_study_refusals(study)

    def find_warnings(self, study: StudyConfig) -> list[str]:
        from hpo_ops.runners.kubernetes._pod_checks import find_study_warnings

        return find_study_warnings()

    def pool_capacity(self, study: StudyConfig) -> float | None:
        from hpo_ops.runners.kubernetes._node_capacity import capacity_of_pool

        return capacity_of_pool(study)

    def resources_of_task(self) -> RunnerResources | None:
        from hpo_ops.runners.kubernetes._cluster_connection import connect_by_airflow

        return connect_by_airflow()

    def resources_of_person(self, namespace: str | None) -> RunnerResources | None:
        from hpo_ops.runners.kubernetes._cluster_leftovers import connect_by_kubeconfig

        return connect_by_kubeconfig(namespace)


RUNNER: Runner = KubernetesRunner()
