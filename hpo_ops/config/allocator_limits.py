"""What an allocator may hand out to a study's trials: units of what ``resources`` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpo_ops.config.pod_sections import WHOLE_GPUS, amount
from hpo_ops.core import Capacity

if TYPE_CHECKING:
    from hpo_ops.config.study_config import StudyConfig


def check_allocator(study: StudyConfig) -> None:
    """Checks that a study and its pool can do what its allocator asks for, where it has one.

    Raises:
        ValueError: The study decides between rounds only, or its pool cannot give what the
            allocator hands out.
    """
    if study.allocator is None:
        return
    if study.reproducible:
        raise ValueError(
            f"allocator is {study.allocator.name!r}, but must not be there with reproducible: "
            "true, since it decides while trials run"
        )
    resources = study.resources
    if study.runner == "local" or not resources.gpu:
        return
    if resources.gpu % 1:
        raise ValueError(
            f"resources.gpu is {resources.gpu:g}, but must be whole with an allocator, "
            "which gives shares itself"
        )
    if study.allocator.max_share > 1 and resources.pool_name in WHOLE_GPUS:
        raise ValueError(
            f"allocator.max_share is {study.allocator.max_share}, but GPUs of the pool "
            f"{resources.pool_name} cannot be shared (resources.pool: gpu-shared)"
        )


def capacity_of(study: StudyConfig, units: int) -> Capacity:
    """What the study's allocator may hand out of so many units."""
    if study.allocator is None:
        return Capacity(units)
    shares = study.allocator.max_share
    most = study.allocator.max_width or max(units, 1)
    if shares > 1 and study.runner == "kubernetes" and study.resources.gpu:
        most = 1  # a pod cannot have two shared GPUs to itself
    return Capacity(units, max_share=shares, max_width=most)


def given(study: StudyConfig, units: float) -> dict[str, float]:
    """What a trial on so many units is told that it has."""
    if study.runner == "local":
        return {"units": units}
    resources = study.resources.scaled(units)
    return {"units": units, "gpu": resources.gpu, "cpu": float(amount(resources.cpu))}
