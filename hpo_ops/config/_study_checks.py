"""Checks combinations of keys in a study that are incompatible with each other.

Each check raises a ValueError whose message starts with the invalid key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpo_ops.config._sections import Flow
from hpo_ops.config.runner_registry import find_runner, image_runners
from hpo_ops.config.warm_start_section import fit_enqueued
from hpo_ops.schedulers import why_rolling

if TYPE_CHECKING:
    from hpo_ops.config._study_config import StudyConfig


def check_runner(study: StudyConfig) -> None:
    """Checks that the study has all keys that its runner needs, and no unsupported keys."""
    runner = find_runner(study.runner)
    if not runner.runs_images and study.code is None:
        raise ValueError(f"code is missing, but is required with runner: {study.runner}")
    if not runner.runs_images and study.image is not None:
        raise ValueError(
            f"image is {study.image!r}, but runner: {study.runner} runs no images "
            f"(runner: {' or '.join(image_runners())})"
        )
    runner.check_study(study)
    if study.code is None and study.image is None:
        raise ValueError("code is missing, but is required (or image)")
    if study.code is None and (study.stop.when or study.finalizers):
        raise ValueError("code is missing, but stop.when and finalizers need it")


def check_space(study: StudyConfig) -> None:
    """Checks that constraints, enqueued parameters and the number of trials fit the space."""
    known = {*study.space, *(metric.name for metric in study.objectives)}
    for constraint in study.constraints:
        if unknown := constraint.names - known:
            raise ValueError(
                f"constraints has {constraint.text!r}, but {sorted(unknown)[0]} is not a "
                f"parameter or metric (known: {', '.join(sorted(known))})"
            )
    fit_enqueued(study.space, study.enqueue)
    if len(study.enqueue) > study.trials:
        raise ValueError(
            f"enqueue has {len(study.enqueue)} sets of parameters, but trials is {study.trials}"
        )
    if study.sampler.name == "grid" and study.trials > study.space.grid_size():
        raise ValueError(
            f"trials is {study.trials}, but the grid has {study.space.grid_size()} points"
        )


def check_limits(study: StudyConfig) -> None:
    """Checks parallelism and trials against their maxima in the study, and repeats.

    A study that warm-starts from itself must not be repeated, since repeats are independent.
    """
    if study.parallelism > study.ceiling:
        raise ValueError(
            f"parallelism is {study.parallelism}, but must be {study.ceiling} or less "
            "(max_parallelism in the study file)"
        )
    if study.max_trials is not None and study.trials > study.max_trials:
        raise ValueError(
            f"trials is {study.trials}, but must be {study.max_trials} or less "
            "(max_trials in the study file)"
        )
    if study.repeats > 1 and study.warm_start and study.warm_start.study == study.name:
        raise ValueError(
            f"repeats is {study.repeats}, but must be 1 with warm_start from the study itself, "
            "since repeats must be independent of each other"
        )


def check_flow(study: StudyConfig, *, has_rungs: bool) -> None:
    """Checks that ``scheduler``, ``flow`` and ``reproducible`` are compatible with each other.

    Args:
        study: The study.
        has_rungs: Whether the scheduler decides only at fixed steps (rungs).
    """
    if study.reproducible and not has_rungs:
        raise ValueError(
            f"scheduler is {study.scheduler.name!r}, but must be default or a scheduler with "
            "rungs (asha, asha_promoting) with reproducible: true, since others decide while "
            "trials run"
        )
    verb = why_rolling(study.scheduler.name)
    if study.flow is Flow.ROUNDS and verb is not None and not study.reproducible:
        raise ValueError(
            f"flow is 'rounds', but must be 'rolling' with the scheduler "
            f"{study.scheduler.name!r}, which {verb} trials"
        )
    if study.reproducible and study.flow is Flow.ROLLING:
        raise ValueError(
            "flow is 'rolling', but must be 'rounds' with reproducible: true, "
            "since trials of a rolling study are proposed in the order in which others end"
        )
