"""Plans the rounds of a study with ``flow: rounds``: how many there are, and how large.

Airflow evaluates every unfinished task of a DAG run against the tasks before it, so a study with
hundreds of rounds slows down with their number. The number of rounds is bounded; a study with more
trials gets larger rounds, whose trials run ``parallelism`` at a time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpo_ops.config._study_config import StudyConfig

DEFAULT_ROUNDS = 25
"""Most rounds of a study that does not set ``round_size``."""
MAX_ROUNDS = 100
"""Most rounds of any study."""


def trials_per_round(study: StudyConfig) -> int:
    """Returns the number of trials of one round; with cross-validation, the number of folds.

    It is ``round_size`` if the study sets it. Otherwise it is the parallelism, or more if the
    study would need more than 25 rounds.
    """
    if study.round_size is not None:
        return study.round_size * study.fold_count
    rungs = _rungs(study)
    # A trial that is judged at each rung comes back once per rung, and the last rung's survivors
    # may need a round each.
    batches = max(DEFAULT_ROUNDS - rungs, rungs)
    return max(study.parallelism, math.ceil(_visits(study, rungs) / batches))


def count_rounds(study: StudyConfig) -> int:
    """Returns the most rounds that a study can need; unneeded rounds are skipped.

    If trials are added when the study is triggered or runs, the last rounds are larger.
    """
    rungs = _rungs(study)
    return math.ceil(_visits(study, rungs) / trials_per_round(study)) + rungs


def check_rounds(study: StudyConfig) -> None:
    """Checks that ``round_size`` is compatible with the study's other keys.

    Raises:
        ValueError: The study has no rounds, or would have too many.
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
    """Returns the number of rungs at which trials wait for the end of a round.

    It is 0 for a study that is not reproducible: its trials are judged while they run.
    """
    return len(study.create_scheduler().rungs or ()) if study.reproducible else 0


def _visits(study: StudyConfig, rungs: int) -> int:
    """Returns how many times trials take part in a round, at most, over all rounds."""
    return study.goal.trials * max(rungs, 1)
