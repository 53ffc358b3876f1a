"""The runner `local`, which executes trials as processes of the Airflow worker.

The working directory of a process is the study's code folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpo_ops.config.runner_port import Runner
from hpo_ops.core.runner_resources import RunnerResources
from hpo_ops.protocol import Provenance

if TYPE_CHECKING:
    from hpo_ops.airflow.trial_task import TrialTask
    from hpo_ops.config import StudyConfig


class LocalRunner:
    """Runs trials as processes of the worker; `resources` and `pod` of a study have no effect.

    All local studies share one pool (a named amount of resources), whose capacity is the number
    of cores until the person who runs the platform sets another capacity. Nothing needs to be
    cleaned up after a crash, since a training process is killed when its worker ends.
    """

    name = "local"
    generic_dag = "hpo_study"
    runs_images = False
    packs_code = False
    reacts_to_interruptions = False
    log_containers = ()
    namespace_key = ()
    job_note = (
        "trials run as local processes of the workers: compute, cpu_per_pod, memory_per_pod and "
        "gpu_per_pod have no effect, and the requirements of setup.py must be installed already"
    )

    def check_study(self, study: StudyConfig) -> None:
        pass

    def pool(self, study: StudyConfig) -> str:
        return self.name

    def lease(self, study: StudyConfig) -> float:
        return 1.0

    def max_units(self, study: StudyConfig) -> int | None:
        return None

    def granted(self, study: StudyConfig, units: float) -> dict[str, float]:
        return {"units": units}

    def requested(self, study: StudyConfig) -> dict[str, Any]:
        return {}

    def provenance(self, study: StudyConfig, environment: Mapping[str, str]) -> Provenance:
        return Provenance()

    def cache_parts(self, study: StudyConfig) -> dict[str, Any]:
        return {}

    def job_priority(self, environment: Mapping[str, str]) -> int:
        return 1

    def initial_pools(self) -> Mapping[str, float]:
        return {self.name: float(os.cpu_count() or 1)}

    def operator(self) -> type[TrialTask]:
        from hpo_ops.runners.local.operator import TrialOperator

        return TrialOperator

    def find_refusals(self, study: StudyConfig) -> list[str]:
        return []

    def find_warnings(self, study: StudyConfig) -> list[str]:
        return []

    def pool_capacity(self, study: StudyConfig) -> float | None:
        return None

    def resources_of_task(self) -> RunnerResources | None:
        return None

    def resources_of_person(self, namespace: str | None) -> RunnerResources | None:
        return None


RUNNER: Runner = LocalRunner()
