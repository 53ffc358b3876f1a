from __future__ import annotations

from typing import Any

import pytest

from hpo_ops.config import StudyError
from hpo_ops.config.job_file import parse_job, study_of
from tests.jobs import SAMPLE


def problems(**changes: Any) -> list[str]:
    """What is wrong with the sample job when some keys are changed; None takes a key away."""
    data = {key: value for key, value in {**SAMPLE, **changes}.items() if value is not None}
    try:
        study_of(parse_job(data), code=".", runner="kubernetes")
    except StudyError as error:
        return error.problems
    return []


def test_the_papers_job_is_a_study_of_108_points_and_150_trials() -> None:
    study = study_of(parse_job(SAMPLE), code=".", runner="kubernetes")
    assert study.name == "SampleModel"
    assert study.command == "python -m hpo_ops.sdk.score modelpkg.train:Model"
    assert study.space.grid_size() == 108
    assert list(study.space) == ["optimizer", "pca_components", "num_layers", "lr"]
    assert (study.trials, study.parallelism) == (150, 8)
    assert study.sampler.name == "random"
    assert (study.resources.cpu, study.resources.memory, study.resources.gpu) == (
        "5",
        "100000Mi",
        1.0,
    )
    assert study.pool == "gpu"
    assert study.objective.direction == "maximize"


@pytest.mark.parametrize("key", SAMPLE)
def test_a_job_without_one_of_its_keys_is_refused_by_the_name_of_that_key(key: str) -> None:
    (problem,) = problems(**{key: None})
    assert problem.startswith(f"{key} is missing, but is required")


def test_quantities_may_be_numbers_or_text() -> None:
    numbers = {"cpu_per_pod": 5, "gpu_per_pod": 1, "num_iterations": 150}
    texts = {"cpu_per_pod": "5", "gpu_per_pod": "1", "num_iterations": "150"}
    studies = [
        study_of(parse_job({**SAMPLE, **changes}), code=".", runner="kubernetes")
        for changes in (numbers, texts)
    ]
    assert studies[0] == studies[1]


@pytest.mark.parametrize(
    ("strategy", "sampler"),
    [("RANDOM", "random"), ("TPE", "tpe"), ("REINFORCE", "reinforce"), ("tpe", "tpe")],
)
def test_each_strategy_of_the_paper_is_a_sampler(strategy: str, sampler: str) -> None:
    job = parse_job({**SAMPLE, "strategy": strategy})
    assert study_of(job, code=".", runner="local").sampler.name == sampler


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("strategy", "MAGIC"),
        ("hp_ranges", {}),
        ("hp_ranges", {"lr": []}),
        ("hp_ranges", {"lr": 0.1}),
        ("hp_ranges", {"lr": [[0.1]]}),
        ("num_iterations", "many"),
        ("num_iterations", True),
        ("num_iterations", 10_000_000),
        ("parallelism_fact", 0),
        ("jobname", "../etc"),
        ("compute", "qpu"),
        ("cpu_per_pod", "5x"),
        ("memory_per_pod", True),
        ("gpu_per_pod", "1.5"),
        ("model_classname", "Model; rm -rf /"),
        ("module_name", "../train"),
        ("colour", "blue"),
    ],
)
def test_what_is_wrong_is_named_by_the_key_of_the_job(key: str, value: object) -> None:
    (problem,) = problems(**{key: value})
    assert problem.startswith(key)


def test_a_job_for_cpus_needs_no_gpus_and_may_not_ask_for_them() -> None:
    assert problems(compute="cpu", gpu_per_pod=None) == []
    assert problems(compute="cpu", gpu_per_pod="0") == []
    assert problems(compute="cpu") == ["gpu_per_pod is 1, but compute is 'cpu'"]


def test_several_problems_are_all_named() -> None:
    assert len(problems(compute="tpu", num_iterations="x", colour="blue")) == 3
