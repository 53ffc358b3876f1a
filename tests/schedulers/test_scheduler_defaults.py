"""Defaults of the attributes that a user's scheduler does not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from hpo_ops.config import Flow, parse_study
from hpo_ops.core import Action, Decision, Goal, Member, Study, Trial, TrialGroup
from hpo_ops.schedulers import Asha, create_scheduler, may_pause, why_rolling, with_defaults
from tests.studies import study_data

HERE = "tests.schedulers.test_scheduler_defaults"


@dataclass(frozen=True)
class Silent:
    """States nothing but what a scheduler needs."""

    max_steps: int | None = 4

    def next(self, study: Study, free: int, now: float) -> TrialGroup:
        return TrialGroup((Member("new"),), "one at a time")

    def on_report(self, study: Study, trial: Trial, now: float) -> Decision:
        return Decision(Action.STOP, "one report is enough")


@dataclass(frozen=True)
class Pausing(Silent):
    pauses: ClassVar[bool] = True


@dataclass(frozen=True)
class Running(Silent):
    pauses: ClassVar[bool] = False


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ",".join(f"{HERE}:{kind}" for kind in ("Silent", "Pausing", "Running"))
    monkeypatch.setenv("HPO_ALLOWED_CLASSES", names)


def test_a_scheduler_with_every_attribute_is_left_alone() -> None:
    scheduler = Asha(max_steps=9)
    assert with_defaults(scheduler) is scheduler


@pytest.mark.usefixtures("allowed")
def test_a_users_scheduler_gets_the_documented_defaults() -> None:
    made = create_scheduler(f"{HERE}:Silent", {"max_steps": 7})
    assert (made.pauses, made.copies, made.max_steps) == (True, False, 7)
    assert (made.rungs, made.forecast_every) == (None, None)


@pytest.mark.usefixtures("allowed")
def test_a_users_scheduler_decides_itself() -> None:
    made, study = create_scheduler(f"{HERE}:Silent", {}), Study(Goal(trials=1))
    assert made.next(study, 1, 0.0).reason == "one at a time"
    assert made.on_report(study, study.add(), 0.0).action is Action.STOP


@pytest.mark.usefixtures("allowed")
def test_an_attribute_that_a_user_states_counts() -> None:
    assert create_scheduler(f"{HERE}:Running", {}).pauses is False


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    ("name", "pauses", "verb"),
    [
        ("asha", False, None),
        ("pop", True, "pauses"),
        ("pbt", False, "copies"),
        (f"{HERE}:Silent", True, None),
        (f"{HERE}:Pausing", True, "pauses"),
        (f"{HERE}:Running", False, None),
        ("gone.since:Yesterday", True, None),
        ("no_such_name", True, None),
    ],
)
def test_the_flow_is_known_from_the_name(name: str, pauses: bool, verb: str | None) -> None:
    assert may_pause(name) is pauses
    assert why_rolling(name) == verb


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    ("kind", "flow"),
    [("Silent", Flow.ROUNDS), ("Pausing", Flow.ROLLING), ("Running", Flow.ROUNDS)],
)
def test_a_users_scheduler_that_says_it_pauses_makes_a_study_rolling(
    kind: str, flow: Flow
) -> None:
    data = study_data(scheduler={"name": f"{HERE}:{kind}"})
    data.pop("flow", None)
    assert parse_study(data, source="test").flow is flow


def test_a_class_that_is_not_allowed_is_not_imported_to_know_its_flow() -> None:
    assert why_rolling(f"{HERE}:Pausing") is None
