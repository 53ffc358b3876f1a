"""Percentile, as Optuna defines it."""

from __future__ import annotations

from typing import ClassVar

from hpo_ops.core import Action
from hpo_ops.schedulers import Percentile
from tests.contracts.scheduler import SchedulerContract
from tests.schedulers.completed_studies import decide, study_of


class TestPercentile(SchedulerContract):
    name = "percentile"
    options: ClassVar = {"percentile": 25.0, "max_steps": 6, "n_startup_trials": 2}
    bad_options = (
        ("percentile", 101),
        ("n_startup_trials", -1),
        ("n_warmup_steps", -1),
        ("interval_steps", 0),
        ("n_min_trials", 0),
        ("max_steps", 0),
    )


def test_the_percentile_counts_from_the_best() -> None:
    curves = [[v / 10] for v in range(11)]
    assert decide(Percentile(percentile=20.0), study_of(*curves), 0.79) is Action.STOP
    assert decide(Percentile(percentile=20.0), study_of(*curves), 0.81) is Action.CONTINUE
