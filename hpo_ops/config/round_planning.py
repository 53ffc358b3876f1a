"""Computes the number and size of the rounds of a study with ``flow: rounds``.

A round is a batch of trials with a barrier after it. Airflow's scheduling of a DAG run slows down
with the number of unfinished tasks, so the number of rounds is bounded. A study with many trials
has larger rounds instead, of which ``parallelism`` trials run at a time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpo_ops.config._study_config import StudyConfig

DEFAULT_ROUNDS = 25
"""Maximum number of rounds that is aimed at if a study does not set ``round_size``."""
MAX_ROUNDS = 100
"""Maximum number of rounds of a study that sets ``round_size``."""


def trials_per_round(study: StudyConfig) -> int:
    """Returns the number of trials in one round; with cross-validation, each fold counts as one.

    The number is ``round_size`` (times the number of folds) if the study sets it. Otherwise it is
    the parallelism, or more if the study would otherwise need more than `DEFAULT_ROUNDS` rounds.
    """
    if study.round_size is not None:
        return study.round_size * study.fold_count
    rungs = _rungs(study)
    # A trial that is judged at each rung comes back once per rung, and the last rung's survivors
    # may need a round each.
    batches = max(DEFAULT_ROUNDS - rungs, rungs)
    return max(study.parallelism, math.ceil(_visits(study, rungs) / batches))


def count_rounds(study: StudyConfig) -> int:
    """Returns the maximum number of rounds that a study can need.

    Rounds that turn out not to be needed are skipped. If ``trials`` is increased when the study is
    triggered or while it runs, the last rounds become larger.
    """
    rungs = _rungs(study)
    return math.ceil(_visits(study, rungs) / trials_per_round(study)) + rungs


def check_rounds(study: StudyConfig) -> None:
    """Checks that ``round_size`` is compatible with the study's other keys.

    Raises:
        ValueError: The study sets ``round_size`` but has no rounds, or would have too many rounds.
    """
    if study.round_size is None:
        return
    if study.flow.value != "rounds":
        raise ValueError(
            f"round_size is {study.round_size}, but only a study with flow: rounds has rounds"
        )
    if (found := count_rounds(study)) > MAX_ROUNDS:
        rungs = _rungs(study)
        batches = max(MAX_ROUNDS - rungs, 1) * study.fold_count
        least = math.ceil(_visits(study, rungs) / batches)
        raise ValueError(
            f"round_size is {study.round_size}, but must be {least} or more: "
            f"a study has at most {MAX_ROUNDS} rounds, and this one would have {found}"
        )


def _rungs(study: StudyConfig) -> int:
    """Returns the number of rungs (steps) at which trials wait for the end of a round.

    The number is 0 for a study that is not reproducible, since its scheduler decides while trials
    run.
    """
    return len(study.create_scheduler().rungs or ()) if study.reproducible else 0


def _visits(study: StudyConfig, rungs: int) -> int:
    """Returns the maximum sum of the numbers of trials in all rounds.

    A trial takes part in at most one round for each rung, and in one round if there are no rungs.
    """
    return study.goal.trials * max(rungs, 1)
