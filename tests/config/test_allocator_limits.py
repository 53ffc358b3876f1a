"""What an allocator may hand out, checked when the study is read."""

from __future__ import annotations

from typing import Any

import pytest

from hpo_ops.config import StudyError, parse_study
from hpo_ops.config.allocator_limits import capacity_of
from hpo_ops.config.forecast_settings import forecast_order
from hpo_ops.config.pod_sections import Resources
from hpo_ops.core import Capacity
from tests.studies import study_data

GPUS = {"runner": "kubernetes", "resources": {"gpu": 1, "cpu": 4, "memory": "16Gi"}}
SHARED = {"runner": "kubernetes", "resources": {"gpu": 1, "pool": "gpu-shared"}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"allocator": "fair"},
            "allocator.name is 'fair', but must be one of dynamic_fluid, even",
        ),
        ({"allocator": {"name": "uniform", "cool_down": -1}}, "allocator.cool_down is -1"),
        ({"allocator": {"name": "even", "max_share": 0}}, "allocator.max_share is 0"),
        ({"allocator": "even", "reproducible": True, "flow": "rounds"}, "reproducible: true"),
        (
            {**GPUS, "allocator": {"name": "even", "max_share": 2}},
            "allocator.max_share is 2, but GPUs of the pool gpu cannot be shared",
        ),
        (
            {"runner": "kubernetes", "resources": {"gpu": 0.5}, "allocator": "even"},
            "resources.gpu is 0.5, but must be an integer with an allocator",
        ),
        (
            {"scheduler": {"name": "pop", "max_steps": 9}, "curves": "lines"},
            "curves.name is 'lines', but must be one of mcmc, projected",
        ),
    ],
)
def test_a_wrong_allocator_or_predictor_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as error:
        parse_study(study_data(**changes), source="study.yaml")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("changes", "capacity"),
    [
        ({}, Capacity(8)),
        ({"allocator": "uniform"}, Capacity(8, max_width=8)),
        ({"allocator": {"name": "uniform", "max_width": 4}}, Capacity(8, max_width=4)),
        (
            {"allocator": {"name": "even", "max_share": 2}},
            Capacity(8, max_share=2, max_width=8),
        ),
        ({**GPUS, "allocator": "uniform"}, Capacity(8, max_width=8)),
        (
            {**SHARED, "allocator": {"name": "even", "max_share": 4}},
            Capacity(8, max_share=4, max_width=1),
        ),
    ],
)
def test_a_study_says_what_its_allocator_may_hand_out(
    changes: dict[str, Any], capacity: Capacity
) -> None:
    study = parse_study(study_data(**changes), source="study.yaml")
    assert capacity_of(study, 8) == capacity


def test_a_pod_on_several_units_has_a_multiple_and_a_share_keeps_its_memory() -> None:
    unit = Resources(gpu=1, cpu="500m", memory="1Gi")
    wide, share = unit.scaled(4), unit.scaled(0.25)
    assert (wide.gpu, wide.cpu, wide.memory) == (4, "2000m", str(4 * 2**30))
    assert (share.gpu, share.cpu, share.memory) == (0.25, "125m", str(2**30))
    assert unit.scaled(1) is unit


def test_only_schedulers_that_look_ahead_order_forecasts() -> None:
    plain = parse_study(study_data(), source="study.yaml")
    assert forecast_order(plain, seed=1) is None
    scheduler = {"name": "early_term", "max_steps": 60}
    study = parse_study(
        study_data(scheduler=scheduler, metric={"name": "loss", "direction": "minimize"}),
        source="study.yaml",
    )
    order = forecast_order(study, seed=1)
    assert order is not None
    assert (order.every, order.last_step, order.is_maximized) == (30, 60, False)
