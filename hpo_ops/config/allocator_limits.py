"""Limits of a study's allocator: how many resource units (such as GPUs) a trial may get.

Several trials may share a unit; each of them then has a fraction of the unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpo_ops.config.runner_registry import find_runner
from hpo_ops.core import Capacity

if TYPE_CHECKING:
    from hpo_ops.config._study_config import StudyConfig


def check_allocator(study: StudyConfig) -> None:
    """Checks that a study with an allocator is not ``reproducible``.

    Whether the runner supports the allocator is checked by the runner itself.

    Raises:
        ValueError: The study has an allocator and is reproducible. A reproducible study allows
            decisions only between rounds (batches of trials).
    """
    if study.allocator is None:
        return
    if study.reproducible:
        raise ValueError(
            f"allocator is {study.allocator.name!r}, but must be omitted with reproducible: true, "
            "since an allocator decides while trials run"
        )


def capacity_of(study: StudyConfig, units: int) -> Capacity:
    """Returns the units that the study's allocator may distribute, and the limits for one trial.

    Args:
        study: The study.
        units: Number of resource units (such as GPUs) that are available to the study.
    """
    if study.allocator is None:
        return Capacity(units)
    most = study.allocator.max_width or max(units, 1)
    limit = find_runner(study.runner).max_units(study)
    return Capacity(
        units,
        max_share=study.allocator.max_share,
        max_width=most if limit is None else min(most, limit),
    )
