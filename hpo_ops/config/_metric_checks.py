"""Checks a study's metrics, and the other keys of a study with several metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpo_ops.samplers import MULTI_OBJECTIVE, SAMPLERS

if TYPE_CHECKING:
    from hpo_ops.config._study_config import StudyConfig


def check_metrics(study: StudyConfig) -> None:
    """Checks the metrics of a study, and the keys that depend on the number of metrics.

    Raises:
        ValueError: The metrics are missing or repeated, or another key is not allowed in a study
            with several metrics.
    """
    if (study.metric is None) == (not study.metrics):
        raise ValueError("metric is missing, but a study needs metric or metrics, and not both")
    names = [metric.name for metric in study.objectives]
    if len(set(names)) < len(names):
        raise ValueError(f"metrics has the names {names}, but each must appear once")
    if len(names) > 1:
        if study.scheduler.name != "default":
            raise ValueError(
                f"scheduler is {study.scheduler.name!r}, but must be 'default' with several "
                "metrics, since other schedulers compare one number"
            )
        if study.sampler.name in SAMPLERS and study.sampler.name not in MULTI_OBJECTIVE:
            raise ValueError(
                f"sampler is {study.sampler.name!r}, but must be one of "
                f"{', '.join(sorted(MULTI_OBJECTIVE))} with several metrics"
            )
        if any(metric.target is not None for metric in study.objectives):
            raise ValueError(
                "metrics has a target, but a target needs a single metric; use stop.when instead"
            )
