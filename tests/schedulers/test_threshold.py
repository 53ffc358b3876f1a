"""Threshold, as Optuna defines it."""

from __future__ import annotations

from typing import ClassVar

import pytest

from hpo_ops.core import Action, Direction
from hpo_ops.schedulers import Threshold
from tests.contracts.scheduler import SchedulerContract
from tests.schedulers.completed_studies import decide, study_of


class TestThreshold(SchedulerContract):
    name = "threshold"
    options: ClassVar = {"lower": 0.1, "max_steps": 6}
    bad_options = (("upper", 0.0), ("interval_steps", 0))

    def test_a_bound_is_needed(self) -> None:
        with pytest.raises(ValueError, match="lower is null"):
            Threshold()


def test_a_value_out_of_bounds_stops() -> None:
    rule = Threshold(lower=0.2, upper=0.8)
    assert decide(rule, study_of(), 0.1) is Action.STOP
    assert decide(rule, study_of(), 0.9) is Action.STOP
    assert decide(rule, study_of(), 0.5) is Action.CONTINUE
    assert decide(rule, study_of(), float("nan")) is Action.STOP


def test_bounds_are_values_whatever_the_direction() -> None:
    study = study_of(direction=Direction.MINIMIZE)
    assert decide(Threshold(upper=0.8), study, 0.9) is Action.STOP
