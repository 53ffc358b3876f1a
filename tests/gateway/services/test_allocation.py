"""Live studies with an allocator: who gets how much, and what is resized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import select, update

from hpo_ops.client import NextAction, NextActionKind, StudyRequest, Waiter
from hpo_ops.core import TrialState
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.recorded_study import list_segments
from hpo_ops.gateway.queries.trial_lists import list_decisions, list_trials
from hpo_ops.ledger._schema import leases
from hpo_ops.ledger._schema import studies as studies_table
from hpo_ops.ledger.leases import set_capacity
from hpo_ops.protocol import (
    Action,
    Assignment,
    Checkpoint,
    Control,
    Outcome,
    Report,
    SegmentResult,
)
from tests.studies import study_data

WHOLE = {"name": "default", "max_steps": 100}


def start(services: Gateway, units: float, name: str = "small", **changes: Any) -> int:
    set_units(services, units)
    data = study_data(
        **{
            "name": name,
            "scheduler": WHOLE,
            "flow": "rolling",
            "allocator": "uniform",
            "trials": 4,
            "parallelism": 4,
            **changes,
        }
    )
    return services.studies.start(StudyRequest(config=data, dag_id=name, run_id="run-1")).id


def set_units(services: Gateway, units: float) -> None:
    with services.ledger.engine.begin() as connection:
        set_capacity(connection, "local", units)


class Trials:
    """Trials of a study and their open segments, each report with a checkpoint."""

    def __init__(self, services: Gateway, study_id: int) -> None:
        self.services, self.study_id = services, study_id
        self.open: dict[int, Assignment] = {}
        self.steps: dict[int, int] = {}
        self.tries = 0

    def turn(self, number: int) -> NextAction:
        self.tries += 1
        turn = self.services.next_actions.next_action(
            self.study_id, number, key=f"{number}/{self.tries}"
        )
        if turn.assignment is not None:
            self.open[number] = turn.assignment
            self.steps[number] = turn.assignment.from_step
        return turn

    def begin(self, *numbers: int) -> dict[int, float]:
        """Their units."""
        for number in numbers:
            assert self.turn(number).kind is NextActionKind.RUN
        return self.units

    @property
    def units(self) -> dict[int, float]:
        return {number: item.resources["units"] for number, item in sorted(self.open.items())}

    def report(
        self, number: int, value: float = 0.5, *, times: int = 1, saves: bool = True
    ) -> Control:
        control = Control()
        for _ in range(times):
            step = self.steps[number] = self.steps[number] + 1
            segment = self.open[number].segment
            if saves:
                saved = Checkpoint(step=step, uri=f"s3://x/{number}/{step}", files=1, bytes=1)
                self.services.segments.checkpoint(segment, saved)
            report = Report(step=step, metrics={"accuracy": value}, seconds=1.0)
            control = self.services.segments.report(segment, [report])
        return control

    def sign_of_life(self, number: int) -> Control:
        return self.services.segments.report(self.open[number].segment, [])

    def leave(self, number: int, control: Control | None = None) -> None:
        control = control or Control(action=Action.STOP, reason="enough")
        result = SegmentResult(
            outcome=control.action.outcome or Outcome.COMPLETED,
            step=self.steps[number],
            reason=control.reason,
        )
        self.services.segments.finish(self.open.pop(number).segment, result)

    def state(self, number: int) -> TrialState:
        with self.services.ledger.study(self.study_id) as session:
            return session.view.trials[number].state


@pytest.mark.parametrize(
    ("trials", "split"), [(5, [2, 2, 2, 1, 1]), (3, [3, 3, 2]), (2, [4, 4]), (1, [8])]
)
def test_uniform_splits_eight_units_by_the_papers_numbers(
    services: Gateway, trials: int, split: list[int]
) -> None:
    study_id = start(services, 8, trials=trials, parallelism=trials)
    live = Trials(services, study_id)
    assert list(live.begin(*range(trials)).values()) == split
    with services.ledger.engine.connect() as connection:
        held = connection.execute(select(leases.c.amount).order_by(leases.c.trial)).scalars()
        assert list(held) == split


def test_the_leader_is_widened_when_others_leave(services: Gateway) -> None:
    study_id = start(services, 4)
    live = Trials(services, study_id)
    assert live.begin(0, 1, 2, 3) == {0: 1, 1: 1, 2: 1, 3: 1}
    for number in range(4):
        assert live.report(number, 0.1 * number, times=7).action is Action.CONTINUE
    for number in (0, 1):
        live.leave(number)
    told = live.report(3, 0.9)
    assert told.action is Action.RESIZE
    assert told.reason == "1 to 2 units: 4 units dealt in turn to 2 trials, the best first"
    assert live.report(3, 0.9).action is Action.RESIZE  # it stands until the segment ends
    live.leave(3, told)
    assert live.state(3) is TrialState.RUNNING  # it keeps its place
    turn = live.turn(3)
    assert turn.assignment is not None
    assert (turn.assignment.resources["units"], turn.assignment.from_step) == (2, 9)
    record = services.ledger.get(study_id)
    decisions = list_decisions(services.ledger, record, 3)
    assert (decisions[-1].action, decisions[-1].reason) == ("resize", told.reason)
    segments = list_segments(services.ledger, record, offset=0, limit=100)
    assert [item.units for item in segments if item.trial == 3] == [1, 2]
    trial = list_trials(services.ledger, record)[3]
    assert (trial.value, trial.step) == (0.9, 9)  # nothing is lost


def test_what_keeps_its_width_is_not_restarted(services: Gateway) -> None:
    study_id = start(services, 3, trials=3, parallelism=3)
    live = Trials(services, study_id)
    live.begin(0, 1, 2)
    for number in range(3):
        assert live.report(number, 0.5 - 0.1 * number, times=9).action is Action.CONTINUE


def test_a_trial_is_not_widened_before_its_cool_down_or_its_first_checkpoint(
    services: Gateway,
) -> None:
    study_id = start(services, 2, trials=2, parallelism=2)
    live = Trials(services, study_id)
    live.begin(0, 1)
    live.leave(0)
    assert live.report(1, times=5, saves=False).action is Action.CONTINUE  # cools down
    assert live.report(1, times=5, saves=False).action is Action.CONTINUE  # has saved nothing
    assert live.report(1).action is Action.RESIZE


def test_fewer_units_pause_a_trial_that_later_goes_on(services: Gateway) -> None:
    """FL-12: units go from 5 to 2 under F1's four trials; nothing fails."""
    fluid = {"name": "dynamic_fluid", "max_share": 2, "max_width": 4, "min_seconds": 0}
    study_id = start(services, 5, allocator=fluid)
    live = Trials(services, study_id)
    assert live.begin(0, 1, 2, 3) == {0: 1, 1: 1, 2: 1, 3: 1}  # the same work so far
    for number, left in enumerate((6, 2, 1, 1)):
        live.steps[number] = 99 - left
        live.report(number)  # its remaining steps are 6, 2, 1 and 1
    set_units(services, 2)
    told = {number: live.sign_of_life(number) for number in range(4)}
    changed = [number for number in told if told[number].action is Action.RESIZE]
    for number in changed:
        live.leave(number, told[number])
    waits = {number: live.turn(number) for number in changed}
    queued = [number for number in changed if waits[number].kind is NextActionKind.WAIT]
    assert len(queued) == 1
    assert "no units are left for the trial" in waits[queued[0]].reason
    assert sum(live.units.values()) <= 2
    assert live.units[0] == 1
    assert live.state(queued[0]) is TrialState.RUNNING
    set_units(services, 5)
    waiting = [Waiter(study_id=study_id, trial=queued[0])]
    assert [item.trial for item in services.next_actions.ready(waiting)] == queued
    assert live.turn(queued[0]).kind is NextActionKind.RUN


def test_more_units_widen_a_running_trial_at_its_next_sign_of_life(services: Gateway) -> None:
    study_id = start(services, 1, trials=1, parallelism=1, allocator="even")
    live = Trials(services, study_id)
    assert live.begin(0) == {0: 1}
    assert live.report(0, times=2).action is Action.CONTINUE
    set_units(services, 4)
    told = live.sign_of_life(0)
    assert told == Control(action=Action.RESIZE, reason="1 to 4 units: 4 units for each trial")
    live.leave(0, told)
    assert live.begin(0) == {0: 4}


def test_top_trial_gives_what_is_spare_to_the_best(services: Gateway) -> None:
    study_id = start(services, 5, trials=2, parallelism=2, allocator="top_trial")
    live = Trials(services, study_id)
    assert live.begin(0, 1) == {0: 4, 1: 1}
    live.report(0, 0.2)
    live.report(1, 0.3)
    told = [live.sign_of_life(0), live.sign_of_life(1)]
    assert [item.action for item in told] == [Action.CONTINUE] * 2  # no unit is idle
    live.leave(0)
    assert live.sign_of_life(1).reason == "1 to 5 units: spare units go to the best trials"


def test_static_fluid_keeps_what_runs(services: Gateway) -> None:
    study_id = start(services, 4, trials=2, parallelism=2, allocator="static_fluid")
    live = Trials(services, study_id)
    assert live.begin(0, 1) == {0: 2, 1: 2}
    live.report(0, times=9)
    live.leave(0)
    assert live.report(1, times=9).action is Action.CONTINUE


def test_a_study_leaves_another_one_its_share(services: Gateway) -> None:
    first = start(services, 4, trials=1, parallelism=1, allocator="even")
    live = Trials(services, first)
    assert live.begin(0) == {0: 4}
    live.report(0)
    other = start(services, 4, name="other", trials=3, parallelism=3, allocator=None)
    late = Trials(services, other)
    assert late.turn(0).kind is NextActionKind.WAIT
    told = live.sign_of_life(0)
    assert told.reason == "4 to 3 units: 3 units for each trial"
    live.leave(0, told)
    assert late.turn(0).kind is NextActionKind.RUN
    assert live.begin(0) == {0: 3}
    assert live.report(0).action is Action.CONTINUE
    late.turn(1), late.turn(2)
    assert live.sign_of_life(0).reason == "3 to 2 units: 2 units for each trial"  # an even share


def test_a_lease_that_expired_is_taken_anew_with_its_amount(services: Gateway) -> None:
    study_id = start(services, 4, trials=1, parallelism=1)
    live = Trials(services, study_id)
    assert live.begin(0) == {0: 4}
    with services.ledger.engine.begin() as connection:
        connection.execute(leases.delete())
    live.sign_of_life(0)
    with services.ledger.engine.connect() as connection:
        assert connection.execute(select(leases.c.amount)).scalar_one() == 4


def make_older(services: Gateway, study_id: int, seconds: float) -> None:
    """The study began so much earlier."""
    from sqlalchemy import text

    with services.ledger.engine.begin() as connection:
        connection.execute(
            update(studies_table)
            .where(studies_table.c.id == study_id)
            .values(at=studies_table.c.at - text(f"interval '{seconds} seconds'"))
        )


def test_hypersched_admits_by_the_deadline_and_then_consolidates(services: Gateway) -> None:
    study_id = start(
        services,
        2,
        trials=8,
        parallelism=2,
        scheduler={"name": "hypersched", "max_steps": 100, "eta": 4, "variant": "stopping"},
        budget={"wall": "1h"},
    )
    live = Trials(services, study_id)
    assert live.begin(0, 1) == {0: 1, 1: 1}
    for number, value in ((0, 0.2), (1, 0.9)):
        live.report(number, value, times=7)
    # A new trial needs min(7 s * 4, 1 s * 100) = 28 s: with 29 s left it starts, with 28 not.
    make_older(services, study_id, 3600 - 28)
    live.leave(0)
    turn = live.turn(2)
    assert turn.kind is NextActionKind.WAIT
    assert "but a new trial needs more than 28 s" in turn.reason
    told = live.report(1, 0.9)
    assert told.reason == "1 to 2 units: 2 units dealt in turn to 1 trials, the best first"
    live.leave(1, told)
    assert live.begin(1) == {1: 2}
    make_older(services, study_id, 30)
    assert live.report(1, 0.9).action is Action.STOP  # within one step of the deadline


def test_pods_get_a_multiple_of_their_resources(services: Gateway) -> None:
    with services.ledger.engine.begin() as connection:
        set_capacity(connection, "gpu", 4)
    resources: Mapping[str, object] = {"gpu": 1, "cpu": "500m", "memory": "1Gi"}
    study_id = start(
        services, 1, trials=2, parallelism=2, runner="kubernetes", resources=resources
    )
    live = Trials(services, study_id)
    live.begin(0, 1)
    assert live.open[0].resources == {"units": 2, "gpu": 2, "cpu": 1}


def test_an_outcome_other_than_a_pause_counts_whatever_was_asked(services: Gateway) -> None:
    study_id = start(services, 1, trials=1, parallelism=1, allocator="even")
    live = Trials(services, study_id)
    live.begin(0)
    live.report(0)
    set_units(services, 2)
    assert live.sign_of_life(0).action is Action.RESIZE
    over = SegmentResult(outcome=Outcome.COMPLETED, step=100)
    services.segments.finish(live.open[0].segment, over)
    assert live.state(0) is TrialState.COMPLETED
