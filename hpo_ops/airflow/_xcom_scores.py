"""Pulls trial results that the trial tasks pushed to XCom, and logs how the ledger used them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hpo_ops.client import AbsorbedScores, TrialResult

if TYPE_CHECKING:
    import logging

    from airflow.sdk import Context
    from airflow.sdk.types import Logger

BATCH = 500
"""The largest number of trial results in one request to the gateway."""


def pull_scores(
    context: Context, task_id: str, map_indexes: Sequence[int] | None = None
) -> list[TrialResult]:
    """Returns the trial results that the instances of a mapped task pushed to XCom.

    Instances that pushed no result are left out, for example if their worker was lost.

    Args:
        context: The context of the calling task.
        task_id: Id of the mapped task.
        map_indexes: Map indexes of the instances; None for all instances.
    """
    wanted = None if map_indexes is None else list(map_indexes)
    pulled = context["ti"].xcom_pull(task_ids=task_id, map_indexes=wanted)
    items = [] if pulled is None else [pulled] if isinstance(pulled, dict) else list(pulled)
    return [TrialResult.from_dict(item) for item in items if item]


def batched(scores: Sequence[TrialResult]) -> Iterator[Sequence[TrialResult]]:
    """Splits trial results into batches that fit in one request to the gateway."""
    for start in range(0, len(scores), BATCH):
        yield scores[start : start + BATCH]


def log_comparison(log: Logger | logging.Logger, compared: AbsorbedScores) -> None:
    """Logs which trial results the ledger accepted from XCom, and which differ from the ledger."""
    if compared.absorbed:
        log.info("the ledger took the ends of these trials from XCom: %s", compared.absorbed)
    for text in compared.disagreements:
        log.warning("%s", text)
