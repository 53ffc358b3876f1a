"""Samplers, several metrics and constraints, as a study uses them."""

from __future__ import annotations

from typing import Any

import optuna
import pytest

from hpo_ops.client import StudyRequest, TrialSummary, TurnKind
from hpo_ops.core import TrialState
from hpo_ops.gateway import reading
from hpo_ops.gateway.studies import Studies
from hpo_ops.protocol import Outcome, Report, Result
from tests.studies import study_data

WHOLE = {"name": "default", "max_steps": 1}
SPACE = {
    "lr": {"float": [0.0, 1.0]},
    "width": {"int": [1, 4]},
}
GRID = {"lr": {"float": [0.0, 1.0], "step": 0.5}, "width": [1, 2]}
BOTH = [
    {"name": "accuracy", "direction": "maximize"},
    {"name": "size", "direction": "minimize"},
]


def run(studies: Studies, run_id: str = "run", **changes: Any) -> list[TrialSummary]:
    """Runs a study whose accuracy is lr and whose size is lr + width."""
    data = study_data(
        **{"scheduler": WHOLE, "space": SPACE, "trials": 6, "parallelism": 3, **changes}
    )
    study_id = studies.start(StudyRequest(config=data, dag_id="d", run_id=run_id)).id
    for number in range(data["trials"] // data["parallelism"]):
        for member in studies.sample(study_id, number).members:
            turn = studies.turn(study_id, member["trial"], key="a")
            if turn.kind is not TurnKind.RUN:
                continue
            assert turn.assignment is not None
            params = turn.assignment.params
            lr, width = float(params["lr"] or 0), float(params.get("width") or 0)
            report = Report(step=1, metrics={"accuracy": lr, "size": lr + width})
            studies.report(turn.assignment.segment, [report])
            studies.finish(turn.assignment.segment, Result(outcome=Outcome.COMPLETED, step=1))
        studies.collect(study_id, number, [])
    studies.end(study_id, {})
    return reading.trial_summaries(studies.ledger, studies.ledger.get(study_id))


@pytest.mark.parametrize(
    ("sampler", "space"),
    [
        ("random", SPACE),
        ({"name": "tpe", "n_startup_trials": 2, "multivariate": True}, SPACE),
        ({"name": "gp", "n_startup_trials": 3}, SPACE),
        ({"name": "cmaes", "n_startup_trials": 2}, SPACE),
        ({"name": "qmc", "qmc_type": "halton"}, SPACE),
        ({"name": "nsgaii", "population_size": 3}, SPACE),
        ("brute_force", GRID),
        ("optuna.samplers:RandomSampler", SPACE),
    ],
)
def test_every_sampler_runs_a_study_the_same_way_twice(
    studies: Studies, sampler: Any, space: dict[str, Any]
) -> None:
    stories = [
        [trial.params for trial in run(studies, run_id, sampler=sampler, space=space)]
        for run_id in ("one", "two")
    ]
    assert len(stories[0]) == 6
    assert stories[0] == stories[1]
    assert len({tuple(params.items()) for params in stories[0]}) > 1


def test_a_grid_is_walked_once_over(studies: Studies) -> None:
    trials = run(studies, sampler="grid", space=GRID)
    points = sorted((trial.params["lr"], trial.params["width"]) for trial in trials)
    assert points == [(lr, width) for lr in (0.0, 0.5, 1.0) for width in (1, 2)]
    assert {trial.state for trial in trials} == {TrialState.COMPLETED}


@pytest.mark.parametrize("sampler", ["nsgaii", "tpe"])
def test_several_metrics_give_a_pareto_front(
    studies: Studies, database: str, sampler: str
) -> None:
    trials = run(studies, metric=None, metrics=BOTH, sampler=sampler)
    record = studies.ledger.find("small")
    front = {trial.trial for trial in reading.front(studies.ledger, record)}
    seen = optuna.load_study(study_name=record.key, storage=database)
    assert front == {trial.number for trial in seen.best_trials}
    assert [trial.values for trial in seen.trials] == [
        [trial.metrics["accuracy"], trial.metrics["size"]] for trial in trials
    ]


def test_what_violates_a_constraint_is_never_the_best(studies: Studies) -> None:
    trials = run(studies, sampler="random", constraints=["accuracy <= 0.6"], trials=9)
    values = [trial.value for trial in trials if trial.value is not None]
    assert max(values) > 0.6
    best = reading.best(studies.ledger, studies.ledger.find("small"))
    assert best is not None
    assert best.value == max(value for value in values if value <= 0.6)


def test_parameters_that_violate_a_constraint_are_not_trained(
    studies: Studies, database: str
) -> None:
    trials = run(studies, sampler="random", constraints=["width <= 2"], trials=9)
    for trial in trials:
        is_possible = float(trial.params["width"] or 0) <= 2
        assert (trial.state is TrialState.COMPLETED) == is_possible
        if not is_possible:
            assert (trial.reason, trial.step) == ("violates width <= 2", 0)
    seen = optuna.load_study(study_name=studies.ledger.find("small").key, storage=database)
    assert {trial.state.name for trial in seen.trials} == {"COMPLETE", "PRUNED"}
