"""How many rounds a study has, and how large they are."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hpo_ops.config import StudyError, parse_study
from hpo_ops.config._study_config import StudyConfig
from hpo_ops.config.round_planning import MAX_ROUNDS, count_rounds, trials_per_round
from tests.studies import study_data


def a_study(**changes: Any) -> StudyConfig:
    return parse_study(study_data(**{"scheduler": "default", **changes}), source="test")


@pytest.mark.parametrize(
    ("trials", "parallelism", "size", "rounds"),
    [
        (20, 2, 2, 10),
        (100, 4, 4, 25),  # as many rounds as there may be
        (101, 4, 5, 21),
        (1000, 4, 40, 25),
        (3000, 4, 120, 25),
        (7, 16, 16, 1),
    ],
)
def test_rounds_have_the_parallelism_until_there_would_be_too_many(
    trials: int, parallelism: int, size: int, rounds: int
) -> None:
    study = a_study(trials=trials, parallelism=parallelism)
    assert (trials_per_round(study), count_rounds(study)) == (size, rounds)


def test_a_study_says_how_large_its_rounds_are() -> None:
    study = a_study(trials=100, parallelism=2, round_size=10)
    assert (trials_per_round(study), count_rounds(study)) == (10, 10)
    folded = a_study(trials=100, parallelism=2, round_size=10, folds=5)
    assert (trials_per_round(folded), count_rounds(folded)) == (50, 10)


def test_rounds_that_are_too_small_are_refused_with_the_least_size() -> None:
    with pytest.raises(StudyError, match=r"round_size is 4, but must be 10 or more.* have 250"):
        a_study(trials=1000, round_size=4)
    assert count_rounds(a_study(trials=1000, round_size=10)) == MAX_ROUNDS


def test_a_rolling_study_has_no_rounds() -> None:
    with pytest.raises(StudyError, match="round_size is 4, but only a study with flow: rounds"):
        a_study(flow="rolling", round_size=4)


def test_more_trials_may_be_asked_for_than_the_rounds_were_made_for() -> None:
    study = a_study(trials=100, parallelism=1, round_size=1)
    changed = study.change({"trials": 500}, source="test", is_running=True)
    assert changed.trials == 500


def test_larger_rounds_have_no_more_places_than_run_at_a_time() -> None:
    assert a_study(trials=100, parallelism=4).ceiling == 8
    assert a_study(trials=101, parallelism=4).ceiling == 4
    assert a_study(trials=101, parallelism=4, max_parallelism=6).ceiling == 6


@given(
    trials=some.integers(1, 100_000),
    parallelism=some.integers(1, 1000),
    max_steps=some.integers(1, 10**6),
)
def test_every_study_has_few_rounds_and_place_for_all_of_its_trials(
    trials: int, parallelism: int, max_steps: int
) -> None:
    scheduler = {"name": "asha", "max_steps": max_steps, "eta": 3}
    study = a_study(trials=trials, parallelism=parallelism, reproducible=True, scheduler=scheduler)
    rungs = len(study.create_scheduler().rungs)  # type: ignore[attr-defined]
    rounds, size = count_rounds(study), trials_per_round(study)
    assert rounds <= max(25, 2 * rungs)
    assert (rounds - rungs) * size >= trials * rungs
    assert size >= parallelism
