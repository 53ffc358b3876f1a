"""Samplers, several metrics and constraints, as a study uses them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import optuna
import pytest

from hpo_ops.client import NextActionKind, StudyRequest, TrialSummary
from hpo_ops.config import read_entered
from hpo_ops.core import TrialState
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.best_trial import find_best, find_front
from hpo_ops.gateway.queries.trial_lists import list_trials
from hpo_ops.ledger import Ledger
from hpo_ops.protocol import Outcome, Report, SegmentResult
from hpo_ops.samplers.user_algorithm import close_processes
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


def run(services: Gateway, run_id: str = "run", **changes: Any) -> list[TrialSummary]:
    """Runs a study whose accuracy is lr and whose size is lr + width."""
    data = study_data(
        **{"scheduler": WHOLE, "space": SPACE, "trials": 6, "parallelism": 3, **changes}
    )
    study_id = services.studies.start(
        StudyRequest(config=data, dag_id=data["name"], run_id=run_id, owner="ann")
    ).id
    for number in range(data["trials"] // data["parallelism"]):
        for member in services.rounds.sample(study_id, number).trials:
            turn = services.next_actions.next_action(study_id, member.trial, key="a")
            if turn.kind is not NextActionKind.RUN:
                continue
            assert turn.assignment is not None
            params = turn.assignment.params
            lr, width = float(params["lr"] or 0), float(params.get("width") or 0)
            report = Report(step=1, metrics={"accuracy": lr, "size": lr + width})
            services.segments.report(turn.assignment.segment, [report])
            services.segments.finish(
                turn.assignment.segment, SegmentResult(outcome=Outcome.COMPLETED, step=1)
            )
        services.rounds.collect(study_id, number, [])
    services.studies.end(study_id, {})
    return list_trials(services.ledger, services.ledger.get(study_id))


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
        ({"name": "reinforce", "batch": 2, "learning_rate": 0.1}, SPACE),
        ("optuna.samplers:RandomSampler", SPACE),
    ],
)
def test_every_sampler_runs_a_study_the_same_way_twice(
    services: Gateway, sampler: Any, space: dict[str, Any]
) -> None:
    stories = [
        [trial.params for trial in run(services, run_id, sampler=sampler, space=space)]
        for run_id in ("one", "two")
    ]
    assert len(stories[0]) == 6
    assert stories[0] == stories[1]
    assert len({tuple(params.items()) for params in stories[0]}) > 1


CLIMB = """
import random
class Climb:
    def __init__(self, space, direction, seed, reach=0.2):
        assert direction == "maximize" and list(space) == ["lr", "width"]
        self.best, self.reach, self.rounds = (-1.0, 0.5), reach, 0
    def sample_hyperparameter_candidates(self, n):
        centre, reach = self.best[1], self.reach
        low, high = max(0.0, centre - reach), min(1.0, centre + reach)
        return [
            {"lr": random.uniform(low, high), "width": random.randint(1, 4)} for _ in range(n)
        ]
    def update_state(self, candidates, scores):
        self.rounds += 1
        for candidate, score in zip(candidates, scores):
            self.best = max(self.best, (score, candidate["lr"]))
"""


def test_an_algorithm_in_the_code_folder_runs_a_study_the_same_way_twice(
    services: Gateway, tmp_path: Path
) -> None:
    (tmp_path / "climb.py").write_text(CLIMB)
    sampler = {"name": "climb:Climb", "batch": 3, "reach": 0.3}
    stories = []
    for run_id in ("one", "two"):
        trials = run(services, run_id, sampler=sampler, code=str(tmp_path), trials=12)
        stories.append([trial.params for trial in trials])
        close_processes()  # as a gateway that is started again
    assert stories[0] == stories[1]
    assert len(stories[0]) == 12
    values = [float(params["lr"] or 0) for params in stories[0]]
    assert max(values[:3]) < max(values)
    assert "climb" not in sys.modules


def test_an_algorithm_that_fails_says_why_and_can_be_mended(
    services: Gateway, tmp_path: Path
) -> None:
    file = tmp_path / "climb.py"
    file.write_text(CLIMB.replace("centre - reach", "centre - rech"))
    changes = {"sampler": "climb:Climb", "code": str(tmp_path)}
    with pytest.raises(
        ValueError, match=r"(?s)climb:Climb could not sample: NameError.*climb\.py"
    ):
        run(services, **changes)
    file.write_text(CLIMB)
    assert len(run(services, **changes)) == 6


def test_a_study_whose_code_is_gone_can_still_be_read(services: Gateway, tmp_path: Path) -> None:
    (tmp_path / "climb.py").write_text(CLIMB)
    run(services, sampler="climb:Climb", code=str(tmp_path))
    (tmp_path / "climb.py").unlink()
    again = Ledger(services.ledger.engine)
    read_entered.cache_clear()
    assert [record.name for record in again.recent()] == ["small"]


def test_a_grid_is_walked_once_over(services: Gateway) -> None:
    trials = run(services, sampler="grid", space=GRID)
    points = sorted((trial.params["lr"], trial.params["width"]) for trial in trials)
    assert points == [(lr, width) for lr in (0.0, 0.5, 1.0) for width in (1, 2)]
    assert {trial.state for trial in trials} == {TrialState.COMPLETED}


@pytest.mark.parametrize("sampler", ["nsgaii", "tpe"])
def test_several_metrics_give_a_pareto_front(
    services: Gateway, database: str, sampler: str
) -> None:
    trials = run(services, metric=None, metrics=BOTH, sampler=sampler)
    record = next(services.ledger.named("small"))
    front = {trial.trial for trial in find_front(services.ledger, record)}
    seen = optuna.load_study(study_name=record.key, storage=database)
    assert front == {trial.number for trial in seen.best_trials}
    assert [trial.values for trial in seen.trials] == [
        [trial.metrics["accuracy"], trial.metrics["size"]] for trial in trials
    ]


def test_what_violates_a_constraint_is_never_the_best(services: Gateway) -> None:
    trials = run(services, sampler="random", constraints=["accuracy <= 0.6"], trials=9)
    values = [trial.value for trial in trials if trial.value is not None]
    assert max(values) > 0.6
    best = find_best(services.ledger, next(services.ledger.named("small")))
    assert best is not None
    assert best.value == max(value for value in values if value <= 0.6)


def test_parameters_that_violate_a_constraint_are_not_trained(
    services: Gateway, database: str
) -> None:
    trials = run(services, sampler="random", constraints=["width <= 2"], trials=9)
    for trial in trials:
        is_possible = float(trial.params["width"] or 0) <= 2
        assert (trial.state is TrialState.COMPLETED) == is_possible
        if not is_possible:
            assert (trial.reason, trial.step) == ("violates width <= 2", 0)
    seen = optuna.load_study(study_name=next(services.ledger.named("small")).key, storage=database)
    assert {trial.state.name for trial in seen.trials} == {"COMPLETE", "PRUNED"}
