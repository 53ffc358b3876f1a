"""The route of experiments; an experiment repeats a study with several seeds."""

from __future__ import annotations

from fastapi import APIRouter

from hpo_ops.client.experiment_messages import Experiment
from hpo_ops.gateway.http._route_dependencies import PEOPLE, OpenLedger, ReadableStudy
from hpo_ops.gateway.queries.experiment_progress import read_experiment

experiment_router = APIRouter(tags=[PEOPLE])


@experiment_router.get("/studies/{study_id}/experiment")
def experiment(record: ReadableStudy, ledger: OpenLedger) -> Experiment:
    """Lists the repeats of a study, each with its best value and its best value over time."""
    return read_experiment(ledger, record)
