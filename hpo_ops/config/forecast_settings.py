"""Settings of the learning-curve forecasts that agents compute for a study's scheduler.

An agent is the process beside a training that forwards its reports to the platform.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpo_ops.core import Direction
from hpo_ops.protocol import ForecastOrder

if TYPE_CHECKING:
    from hpo_ops.config._study_config import StudyConfig


def check_curves(study: StudyConfig) -> None:
    """Checks the predictor of learning curves, if the scheduler needs forecasts.

    Raises:
        ValueError: The predictor or one of its options is not allowed, or the scheduler has no
            ``max_steps``, which is the last step of a forecast.
    """
    scheduler = study.create_scheduler()
    if scheduler.forecast_every is None:
        return
    if scheduler.max_steps is None:
        raise ValueError(
            f"scheduler.max_steps is missing, but {study.scheduler.name!r} needs it: it forecasts "
            "learning curves up to that step"
        )
    # Imported here: importing NumPy is slow, and few studies need it.
    from hpo_ops.curves import create_predictor

    create_predictor(study.curves.name, study.curves.options)


def forecast_order(study: StudyConfig, *, seed: int) -> ForecastOrder | None:
    """Returns the instructions for a trial's forecasts, or None if the scheduler needs none.

    Args:
        study: The study.
        seed: Seed of the trial's forecasts.
    """
    scheduler = study.create_scheduler()
    if scheduler.forecast_every is None or scheduler.max_steps is None:
        return None
    return ForecastOrder(
        every=scheduler.forecast_every,
        last_step=scheduler.max_steps,
        is_maximized=study.objective.direction is Direction.MAXIMIZE,
        seed=seed,
        predictor=study.curves.name,
        options=study.curves.options,
    )
