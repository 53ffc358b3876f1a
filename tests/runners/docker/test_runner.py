"""The runner `docker`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpo_ops.config import StudyError
from tests.contracts.runner import RunnerContract


class TestDocker(RunnerContract):
    name = "docker"

    def test_studies_share_a_pool_with_a_slot_for_each_core(self) -> None:
        assert (self.study().pool, self.study().lease) == ("docker", 1)
        assert self.runner().initial_pools() == {"docker": os.cpu_count()}

    def test_gpus_are_counted_in_another_pool_or_the_one_that_the_study_names(self) -> None:
        study = self.study(resources={"gpu": 2})
        assert (study.pool, study.lease) == ("docker-gpu", 2)
        assert self.study(resources={"gpu": 1, "pool": "lab"}).pool == "lab"

    def test_a_training_is_told_what_its_container_has(self) -> None:
        study = self.study(resources={"gpu": 1, "cpu": 4, "memory": "16Gi"})
        assert self.runner().granted(study, 2) == {"units": 2, "gpu": 2, "cpu": 8}
        assert self.runner().requested(study) == {"gpu": 1, "cpu": "4", "memory": "16Gi"}

    def test_a_part_of_a_gpu_is_refused(self) -> None:
        with pytest.raises(StudyError, match=r"resources.gpu is 0.5, but must be an integer"):
            self.study(resources={"gpu": 0.5})

    def test_an_allocator_may_not_share_gpus(self) -> None:
        allocator = {"name": "uniform", "max_share": 2}
        assert self.study(allocator=allocator).allocator is not None
        with pytest.raises(StudyError, match=r"allocator.max_share is 2, but must be 1"):
            self.study(allocator=allocator, resources={"gpu": 1})

    def test_a_worker_without_an_engine_refuses_the_study(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing")
        (refusal,) = self.runner().find_refusals(self.study())
        assert refusal.startswith("runner is docker, but no Docker Engine answers at unix://")
