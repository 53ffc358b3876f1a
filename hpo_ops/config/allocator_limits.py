"""Limits of a study's allocator: how many units, or which share of one, a trial may get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpo_ops.config.runner_registry import find_runner
from hpo_ops.core import Capacity

if TYPE_CHECKING:
    from hpo_ops.config._study_config import StudyConfig


def check_allocator(study: StudyConfig) -> None:
    """Checks that a study that names an allocator may have one.

    The runner checks what it can hand out itself.

    Raises:
        ValueError: The study is reproducible, which allows decisions between rounds only.
    """
    if study.allocator is None:
        return
    if study.reproducible:
        raise ValueError(
            f"allocator is {study.allocator.name!r}, but must be omitted with reproducible: true, "
            "since an allocator decides while trials run"
        )


def capacity_of(study: StudyConfig, units: int) -> Capacity:
    """Returns the capacity that the study's allocator may hand out, of so many units."""
    if study.allocator is None:
        return Capacity(units)
    most = study.allocator.max_width or max(units, 1)
    limit = find_runner(study.runner).max_units(study)
    return Capacity(
        units,
        max_share=study.allocator.max_share,
        max_width=most if limit is None else min(most, limit),
    )
