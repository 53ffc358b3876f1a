"""Limits of a study's allocator: how many units, and which shares of one, a trial may get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpo_ops.config.runner_registry import find_runner
from hpo_ops.core import Capacity

if TYPE_CHECKING:
    from hpo_ops.config.study_config import StudyConfig


def check_allocator(study: StudyConfig) -> None:
    """Checks that a study may have an allocator, where it names one.

    What the study's runner can hand out is checked by the runner.

    Raises:
        ValueError: The study is reproducible, so that it decides between rounds only.
    """
    if study.allocator is None:
        return
    if study.reproducible:
        raise ValueError(
            f"allocator is {study.allocator.name!r}, but must not be there with reproducible: "
            "true, since it decides while trials run"
        )


def capacity_of(study: StudyConfig, units: int) -> Capacity:
    """What the study's allocator may hand out of so many units."""
    if study.allocator is None:
        return Capacity(units)
    most = study.allocator.max_width or max(units, 1)
    limit = find_runner(study.runner).max_units(study)
    return Capacity(
        units,
        max_share=study.allocator.max_share,
        max_width=most if limit is None else min(most, limit),
    )
