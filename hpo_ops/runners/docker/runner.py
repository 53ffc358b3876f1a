"""The runner `docker`, which runs each segment of a trial as a container on the worker's machine.

A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpo_ops.config.pod_sections import amount
from hpo_ops.config.runner_port import Runner
from hpo_ops.core.runner_resources import RunnerResources
from hpo_ops.protocol import Provenance
from hpo_ops.runners.platform_images import training_image

if TYPE_CHECKING:
    from hpo_ops.airflow.trial_task import TrialTask
    from hpo_ops.config import StudyConfig


GPU_POOL = "docker-gpu"


class DockerRunner:
    """Runs each segment in a container with the image and `resources` of its study.

    The study's code folder must exist on the worker and is mounted read-only; if the study names
    no folder, the image must contain the code. A study uses the pool (a shared amount of
    resources) that `resources.pool` names. By default this is `docker-gpu` if the study requests
    GPUs, and `docker` otherwise. The capacity of `docker` is the number of cores, and that of
    `docker-gpu` is unlimited, until the person who runs the platform sets a capacity.
    """

    name = "docker"
    generic_dag = "hpo_docker_study"
    runs_images = True
    packs_code = False
    reacts_to_interruptions = True
    log_containers = ()
    namespace_key = ()
    job_note = (
        "trials run in containers without a network here: compute chooses a pool, and what "
        "setup.py asks for must be in the image already"
    )

    def check_study(self, study: StudyConfig) -> None:
        if study.resources.gpu % 1:
            raise ValueError(
                f"resources.gpu is {study.resources.gpu:g}, but must be an integer with "
                "runner: docker, whose containers cannot share GPUs"
            )

        if study.allocator is not None and study.allocator.max_share > 1 and study.resources.gpu:
            raise ValueError(
                f"allocator.max_share is {study.allocator.max_share}, but must be 1 with "
                "resources.gpu and runner: docker, whose containers cannot share GPUs"
            )

    def pool(self, study: StudyConfig) -> str:
        return study.resources.pool or (GPU_POOL if study.resources.gpu else self.name)

    def lease(self, study: StudyConfig) -> float:
        return study.resources.lease

    def max_units(self, study: StudyConfig) -> int | None:
        return None

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
        return {}

    def job_priority(self, environment: Mapping[str, str]) -> int:
        return 0  # used for jobs only if HPO_JOB_RUNNER names this runner

    def initial_pools(self) -> Mapping[str, float]:
        return {self.name: float(os.cpu_count() or 1)}

    def operator(self) -> type[TrialTask]:
        from hpo_ops.runners.docker.operator import TrialContainerOperator

        return TrialContainerOperator

    def find_refusals(self, study: StudyConfig) -> list[str]:
        from hpo_ops.runners.docker._engine_api import DockerEngine, DockerError

        try:
            DockerEngine.from_environment(os.environ).check()
        except (DockerError, ValueError) as error:
            return [f"runner is docker, but {error}"]
        return []

    def find_warnings(self, study: StudyConfig) -> list[str]:
        return []

    def pool_capacity(self, study: StudyConfig) -> float | None:
        return None

    def resources_of_task(self) -> RunnerResources | None:
        from hpo_ops.runners.docker._engine_resources import connect

        return connect()

    def resources_of_person(self, namespace: str | None) -> RunnerResources | None:
        from hpo_ops.runners.docker._engine_resources import connect

        return connect()


RUNNER: Runner = DockerRunner()
