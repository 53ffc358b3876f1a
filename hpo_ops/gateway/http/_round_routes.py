"""Routes of rounds (batches of trials sampled together), for the tasks `sample` and `collect`."""

from __future__ import annotations

from fastapi import APIRouter

from hpo_ops.client import CollectedRound, Round, TrialResult
from hpo_ops.gateway.http._route_dependencies import TASK_ONLY, TASKS, GatewayServices, StudyOfTask

round_router = APIRouter(tags=[TASKS], dependencies=[TASK_ONLY])


@round_router.post("/studies/{study_id}/rounds/{number}")
def sample(record: StudyOfTask, number: int, gateway: GatewayServices, rounds_left: int) -> Round:
    """Chooses the trials of a round; a repeated request returns the same trials."""
    return gateway.rounds.sample(record.id, number, rounds_left)


@round_router.post("/studies/{study_id}/rounds/{number}/scores")
def collect(
    record: StudyOfTask, number: int, scores: list[TrialResult], gateway: GatewayServices
) -> CollectedRound:
    """Closes a round with the results of its trials."""
    return gateway.rounds.collect(record.id, number, scores)
