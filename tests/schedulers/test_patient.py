"""Patient, as Optuna defines it."""

from __future__ import annotations

from typing import ClassVar

import pytest

from hpo_ops.core import Action
from hpo_ops.schedulers import Patient
from tests.contracts.scheduler import SchedulerContract
from tests.schedulers.completed_studies import decide, study_of


class TestPatient(SchedulerContract):
    name = "patient"
    options: ClassVar = {"patience": 2, "max_steps": 6, "wrapped": {"name": "median"}}
    bad_options = (("patience", -1), ("min_delta", -0.1))

    def test_only_some_rules_can_be_wrapped(self) -> None:
        with pytest.raises(ValueError, match=r"wrapped\.name is 'pop', but must be one of median"):
            Patient(patience=1, wrapped={"name": "pop"})

    def test_an_option_of_the_wrapped_rule_is_checked(self) -> None:
        with pytest.raises(ValueError, match=r"wrapped\.interval_steps is 0"):
            Patient(patience=1, wrapped={"name": "median", "interval_steps": 0})


def test_patience_is_lost_when_the_best_is_long_ago() -> None:
    rule = Patient(patience=1)
    assert decide(rule, study_of(), 0.5, 0.4) is Action.CONTINUE
    assert decide(rule, study_of(), 0.5, 0.4, 0.4) is Action.STOP
    assert decide(rule, study_of(), 0.5, 0.4, 0.5) is Action.CONTINUE
    assert decide(Patient(patience=1, min_delta=0.2), study_of(), 0.5, 0.4, 0.4) is Action.CONTINUE


def test_a_wrapped_rule_has_the_last_word() -> None:
    rule = Patient(patience=0, wrapped={"name": "threshold", "lower": 0.3})
    assert decide(rule, study_of(), 0.5, 0.4) is Action.CONTINUE
    assert decide(rule, study_of(), 0.5, 0.2) is Action.STOP
