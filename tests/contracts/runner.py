"""What every runner keeps to. Its tests inherit this class and say which runner it is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from hpo_ops.config import StudyConfig, StudyError, parse_study
from hpo_ops.config.runner_port import Runner
from hpo_ops.config.runner_registry import all_runners, find_runner
from hpo_ops.core.runner_resources import ResourcesUnavailableError
from hpo_ops.protocol import Provenance
from tests.studies import study_data

UNITS = (0.5, 1.0, 2.0)


class RunnerContract:
    """Inherit, and set ``name``; ``changes`` are keys that a study of the runner needs."""

    name: str
    changes: ClassVar[Mapping[str, Any]] = {}
    heavy: ClassVar[tuple[str, ...]] = ("airflow", "kubernetes", "sqlalchemy", "docker")
    """Packages that importing the runner must not import."""

    def runner(self) -> Runner:
        return find_runner(self.name)

    def study(self, **changes: Any) -> StudyConfig:
        data = study_data(**{"runner": self.name, **self.changes, **changes})
        return parse_study(data, source="test")

    def test_it_is_registered_under_its_name(self) -> None:
        assert self.runner().name == self.name
        assert all_runners()[self.name] is self.runner()

    def test_its_generic_dag_is_its_own(self) -> None:
        others = [item.generic_dag for item in all_runners().values() if item.name != self.name]
        assert self.runner().generic_dag not in others

    def test_a_study_that_names_it_takes_from_a_pool_of_its(self) -> None:
        study = self.study()
        assert study.pool == self.runner().pool(study) != ""
        assert study.lease == self.runner().lease(study) > 0

    def test_a_training_is_told_its_units(self) -> None:
        for units in UNITS:
            granted = self.runner().granted(self.study(), units)
            assert granted["units"] == units
            assert all(isinstance(value, int | float) for value in granted.values())

    def test_more_units_never_grant_less(self) -> None:
        grants = [self.runner().granted(self.study(), units) for units in UNITS]
        for fewer, more in pairwise(grants):
            assert fewer.keys() == more.keys()
            assert all(fewer[key] <= more[key] for key in fewer)

    def test_what_is_recorded_is_json(self) -> None:
        runner, study = self.runner(), self.study()
        for value in (runner.requested(study), runner.cache_parts(study)):
            assert json.loads(json.dumps(value)) == value

    def test_a_study_without_settings_of_its_own_adds_nothing_to_the_cache_key(self) -> None:
        assert self.runner().cache_parts(self.study()) == {}

    def test_provenance_names_an_image_only_where_images_run(self) -> None:
        found = self.runner().provenance(self.study(), {"HPO_TRAINING_IMAGE": "platform:1"})
        assert isinstance(found, Provenance)
        assert (found.image is not None) == self.runner().runs_images

    def test_an_image_is_refused_where_images_do_not_run(self) -> None:
        if self.runner().runs_images:
            assert self.study(image="team/model:1").image == "team/model:1"
            assert self.study(image="team/model:1", code=None).code is None
        else:
            with pytest.raises(StudyError, match="image is 'team/model:1'"):
                self.study(image="team/model:1")
            with pytest.raises(StudyError, match=f"required with runner: {self.name}"):
                self.study(code=None)

    def test_it_says_how_much_it_is_preferred_for_jobs(self) -> None:
        assert self.runner().job_priority({}) >= 0

    def test_initial_pools_have_room(self) -> None:
        assert all(capacity > 0 for capacity in self.runner().initial_pools().values())

    def test_its_operator_is_a_trial_task(self) -> None:
        from hpo_ops.airflow.trial_task import TrialTask

        operator = self.runner().operator()
        assert issubclass(operator, TrialTask)
        task = operator(task_id="trial", number=3, folds=2)
        assert (task.number, task.folds) == (3, 2)

    def test_resources_can_be_asked_for_wherever_the_platform_is(self) -> None:
        with suppress(ResourcesUnavailableError):
            access = self.runner().resources_of_person(None)
            assert access is None or list(access.notes) == []

    def test_importing_it_imports_nothing_heavy(self) -> None:
        """Every process that reads study files imports it."""
        script = (
            "import sys\n"
            "from hpo_ops.config.runner_registry import find_runner\n"
            f"find_runner({self.name!r})\n"
            f"print([name for name in {self.heavy!r} if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]"
