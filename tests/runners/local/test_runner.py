"""The runner `local`."""

from __future__ import annotations

import os

from tests.contracts.runner import RunnerContract


class TestLocal(RunnerContract):
    name = "local"

    def test_its_pool_has_a_slot_for_each_core(self) -> None:
        assert self.runner().initial_pools() == {"local": os.cpu_count()}

    def test_resources_of_the_study_have_no_effect(self) -> None:
        study = self.study(resources={"gpu": 2, "cpu": 4})
        assert (study.pool, study.lease) == ("local", 1)
        assert self.runner().granted(study, 2) == {"units": 2}
        assert self.runner().requested(study) == {}

    def test_it_leaves_nothing_behind(self) -> None:
        assert self.runner().resources_of_task() is None
        assert self.runner().resources_of_person(None) is None
