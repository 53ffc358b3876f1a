"""HyperSched's admission rule."""

from __future__ import annotations

import pytest

from hpo_ops.core import TrialState
from hpo_ops.schedulers._hypersched_admission import Admission, admission_bound, should_start
from tests.schedulers.deadline_studies import running


@pytest.mark.parametrize(
    ("left", "furthest", "bound", "starts"),
    [
        (1500, 300, 1200, True),
        (1200, 300, 1200, False),
        (1000, 300, 1200, False),
        (2001, 600, 2000, True),
        (1900, 600, 2000, False),
        (1100, 270, 1080, True),
    ],
)
def test_the_admission_table(left: float, furthest: float, bound: float, starts: bool) -> None:
    found = admission_bound(furthest_seconds=furthest, eta=4, step_seconds=20, max_steps=100)
    assert found == bound  # HS-1
    assert should_start(left, found) is starts


def admission(*, eta: int = 4, max_steps: int = 100, readmit: bool = True) -> Admission:
    return Admission(eta=eta, min_steps=2, max_steps=max_steps, readmit=readmit)


@pytest.mark.parametrize("left", [1000.0, 1200.0, 1200.5, 1500.0])
@pytest.mark.parametrize("readmit", [True, False])
def test_there_is_time_as_the_bound_says(left: float, readmit: bool) -> None:
    study = running(4000.0)
    for rule in (admission(readmit=readmit), admission(eta=9, max_steps=60, readmit=readmit)):
        assert rule.bound(study) == 1200.0
        assert rule.has_time(study, left) is (left > 1200.0)


def test_the_bound_follows_the_furthest_of_those_that_run() -> None:
    study = running(4000.0)
    study.move(1, TrialState.COMPLETED)  # trial 0 has trained for 60 s
    assert admission().bound(study) == 240.0
    assert admission(readmit=False).bound(study) == 1200.0
    study.move(0, TrialState.PAUSED)
    assert admission().bound(study) == 40.0  # to the first judgement
    assert [admission().has_time(study, left) for left in (41.0, 40.0)] == [True, False]
    assert [admission(readmit=False).has_time(study, left) for left in (1201.0, 1200.0)] == [
        True,
        False,
    ]
