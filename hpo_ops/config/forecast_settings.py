"""The forecasts of learning curves that a study's scheduler asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpo_ops.core import Direction
from hpo_ops.protocol import ForecastOrder

if TYPE_CHECKING:
    from hpo_ops.config.study_config import StudyConfig


def check_curves(study: StudyConfig) -> None:
    """Checks who forecasts, where the scheduler asks for it.

    Raises:
        ValueError: The predictor or one of its options is not allowed, or there is no last step.
    """
    scheduler = study.create_scheduler()
    if scheduler.forecast_every is None:
        return
    if scheduler.max_steps is None:
        raise ValueError(
            f"scheduler.max_steps is missing, but {study.scheduler.name!r} forecasts to it"
        )
    # Imported here: numpy takes longer than all else, and few studies need it.
    from hpo_ops.curves import create_predictor

    create_predictor(study.curves.name, study.curves.options)


def forecast_order(study: StudyConfig, *, seed: int) -> ForecastOrder | None:
    """Which forecasts the agent of a trial makes; None where nobody asks for any.

    Args:
        study: The study.
        seed: The trial's seed, which comes from the study's.
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
