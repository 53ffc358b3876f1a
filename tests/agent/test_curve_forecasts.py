"""Forecasts beside a training: what waits for them, and what does not."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from hpo_ops.agent import Agent
from hpo_ops.agent._curve_forecasts import ChildFitter, Curve
from hpo_ops.protocol import (
    Action,
    Assignment,
    Control,
    CurveForecast,
    ForecastOrder,
    Outcome,
    Workspace,
)
from tests.gateways import FakeGateway

ORDER = ForecastOrder(every=5, last_step=40)
RISING = [(step, 0.8 - 0.7 / step) for step in range(1, 21)]


class SlowFitter:
    """A fit ends when it is told to."""

    def __init__(self) -> None:
        self.curves: list[Curve] = []
        self.answer: CurveForecast | None = None
        self.is_closed = False

    def begin(self, order: ForecastOrder, curve: Curve) -> None:
        self.curves.append(curve)
        self.answer = None

    def poll(self) -> CurveForecast | None:
        return self.answer

    def close(self) -> None:
        self.is_closed = True

    def end(self, note: str = "") -> None:
        self.answer = CurveForecast(step=self.curves[-1][-1][0], note=note)


class Bench:
    """An agent that is to forecast every five steps."""

    def __init__(self, root: Path) -> None:
        self.gateway = FakeGateway()
        self.fitter = SlowFitter()
        self.workspace = Workspace(root / "hpo")
        assignment = Assignment(
            study="s",
            trial=0,
            segment="a",
            params={},
            metrics=["accuracy"],
            until_step=40,
            forecasts=ORDER,
        )
        self.workspace.prepare(assignment)
        self.agent = Agent(self.workspace, assignment, self.gateway, fitter=self.fitter)

    def report(self, first: int, last: int) -> None:
        with self.workspace.reports.open("a") as stream:
            for step in range(first, last + 1):
                stream.write(f'{{"step": {step}, "metrics": {{"accuracy": 0.{step:02}}}}}\n')
        self.agent.pump()

    @property
    def arrived(self) -> list[int]:
        return [report.step for report in self.gateway.reports]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_report_waits_for_its_forecast_and_those_before_do_not(bench: Bench) -> None:
    bench.report(1, 4)
    assert bench.arrived == [1, 2, 3, 4]
    bench.report(5, 7)
    assert bench.arrived == [1, 2, 3, 4]
    assert [step for step, _ in bench.fitter.curves[0]] == [1, 2, 3, 4, 5]
    bench.fitter.end()
    bench.agent.pump()
    assert bench.arrived == [1, 2, 3, 4, 5]
    assert [made.step for made in bench.gateway.forecasts] == [5]
    bench.agent.pump()
    assert bench.arrived == [1, 2, 3, 4, 5, 6, 7]


def test_heartbeats_go_on_while_a_report_waits(bench: Bench) -> None:
    bench.report(1, 5)
    clock = bench.agent._outbox._clock
    bench.agent._outbox._clock = lambda: clock() + 10
    bench.agent.pump()
    assert bench.gateway.posts == [0]


def test_a_training_that_is_faster_than_its_fits_is_judged_at_the_newest_step(
    bench: Bench,
) -> None:
    bench.report(1, 17)
    assert len(bench.fitter.curves) == 1
    assert bench.fitter.curves[0][-1][0] == 15
    bench.fitter.end()
    bench.agent.pump()
    assert bench.arrived[-1] == 15
    bench.agent.pump()
    assert bench.arrived[-1] == 17


def test_a_decision_on_a_forecast_reaches_the_training(bench: Bench) -> None:
    bench.gateway.decide = lambda seen: (
        Control(action=Action.STOP, reason="poor") if seen[-1].step == 5 else Control()
    )
    bench.report(1, 6)
    bench.fitter.end()
    bench.agent.pump()
    assert bench.agent.control == Control(action=Action.STOP, reason="poor")


def test_the_curve_of_earlier_segments_is_part_of_the_fit(bench: Bench) -> None:
    bench.gateway.earlier = [(step, 0.1) for step in range(1, 8)]
    bench.report(6, 10)  # steps 6 and 7 are trained again
    assert bench.fitter.curves[0] == [*bench.gateway.earlier, (8, 0.08), (9, 0.09), (10, 0.1)]


def test_the_end_of_a_training_waits_for_no_fit(bench: Bench) -> None:
    bench.report(1, 7)
    result = bench.agent.finish(0)
    assert result.outcome is Outcome.COMPLETED
    assert bench.arrived == list(range(1, 8))
    assert bench.fitter.is_closed
    assert bench.gateway.forecasts == []


def test_the_last_step_needs_no_forecast(bench: Bench) -> None:
    bench.report(36, 40)
    assert bench.arrived == [36, 37, 38, 39, 40]
    assert bench.fitter.curves == []


def wait_for(fitter: ChildFitter) -> CurveForecast:
    give_up_at = time.monotonic() + 60
    while (made := fitter.poll()) is None:
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
    return made


def test_a_child_process_fits_and_the_same_seed_gives_the_same_forecast() -> None:
    fitter = ChildFitter()
    try:
        made = []
        for seed in (1, 1, 2):
            fitter.begin(ForecastOrder(every=5, last_step=40, seed=seed), list(RISING))
            made.append(wait_for(fitter))
        assert fitter._child is not None
        child = fitter._child.pid
        assert os.getpriority(os.PRIO_PROCESS, child) > os.getpriority(os.PRIO_PROCESS, 0)
    finally:
        fitter.close()
    assert not Path(f"/proc/{child}").exists()
    assert made[0].steps[-1] == 40
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize(
    ("order", "note"),
    [
        (ForecastOrder(every=5, last_step=3), "gave no forecast"),
        (ForecastOrder(every=5, last_step=40, predictor="gone:Class"), "the fit failed"),
    ],
)
def test_a_fit_that_fails_says_why(order: ForecastOrder, note: str) -> None:
    fitter = ChildFitter()
    try:
        fitter.begin(order, list(RISING))
        made = wait_for(fitter)
    finally:
        fitter.close()
    assert not made.steps
    assert note in made.note


def test_an_agent_without_the_packages_says_so(tmp_path: Path) -> None:
    missing = [sys.executable, "-c", "import no_such_package"]
    fitter = ChildFitter(missing)
    try:
        for _ in range(2):  # and again at the next boundary
            fitter.begin(ORDER, list(RISING))
            assert wait_for(fitter).note == (
                "the process of the curve fit ended: "
                "ModuleNotFoundError: No module named 'no_such_package'"
            )
    finally:
        fitter.close()


def test_a_fit_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    fitter = ChildFitter([sys.executable, "-c", "import time; time.sleep(600)"], fit_seconds=0.1)
    try:
        fitter.begin(ORDER, list(RISING))
        assert wait_for(fitter).note == "the curve fit took more than 0.1 s"
    finally:
        fitter.close()
