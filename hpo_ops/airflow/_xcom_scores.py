"""Scores of trials by XCom: how tasks after the trials pull them and log what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hpo_ops.client import AbsorbedScores, TrialResult

if TYPE_CHECKING:
    import logging

    from airflow.sdk import Context
    from airflow.sdk.types import Logger

BATCH = 500
"""Scores in one request to the gateway."""


def pull_scores(
    context: Context, task_id: str, map_indexes: Sequence[int] | None = None
) -> list[TrialResult]:
    """The scores that the instances of a mapped task have pushed.

    A task without a result has none, for example because its worker was lost for good.

    Args:
        context: The context of the task that pulls them.
        task_id: The mapped task.
        map_indexes: The instances; None for all.
    """
    wanted = None if map_indexes is None else list(map_indexes)
    pulled = context["ti"].xcom_pull(task_ids=task_id, map_indexes=wanted)
    items = [] if pulled is None else [pulled] if isinstance(pulled, dict) else list(pulled)
    return [TrialResult.from_dict(item) for item in items if item]


def batched(scores: Sequence[TrialResult]) -> Iterator[Sequence[TrialResult]]:
    """Scores in parts that fit a request."""
    for start in range(0, len(scores), BATCH):
        yield scores[start : start + BATCH]


def log_comparison(log: Logger | logging.Logger, compared: AbsorbedScores) -> None:
    """Logs which scores the ledger took from XCom, and which ones differ."""
    if compared.absorbed:
        log.info("the ledger took the ends of these trials from XCom: %s", compared.absorbed)
    for text in compared.disagreements:
        log.warning("%s", text)
