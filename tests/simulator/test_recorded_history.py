"""The history of recorded studies."""

from __future__ import annotations

import pytest

from hpo_ops.core import Direction
from hpo_ops.schedulers import Asha, Default
from hpo_ops.simulator import Cluster, Traces, TrialTrace, image_study, simulate
from hpo_ops.simulator.extrapolation import Unseen, fill_unseen, reliance_of
from hpo_ops.simulator.recorded_history import calibrate, first_start, history_of
from tests.recordings import recorded


@pytest.mark.parametrize("rounds", [False, True])
def test_a_replay_of_what_was_recorded_takes_as_long(rounds: bool) -> None:
    cluster = Cluster(units=3, start_seconds=20.0, resume_seconds=10.0, turnover_seconds=7.0)
    traces = recorded(image_study(seed=4, trials=30, steps=27), cluster=cluster, rounds=rounds)
    happened = history_of(traces)
    assert happened is not None
    found = calibrate(traces, Cluster(units=3))
    assert found.start_seconds == pytest.approx(20.0)
    assert found.turnover_seconds == pytest.approx(7.0)
    whole = fill_unseen(traces, Unseen.HOLD, last_step=27)
    replay = simulate(whole, Asha(max_steps=27), cluster=found, rounds=rounds)
    assert replay.makespan == pytest.approx(happened.makespan)
    assert replay.time_to(happened.best) == pytest.approx(happened.time_to_best)
    assert replay.unit_seconds == pytest.approx(happened.unit_seconds)
    assert reliance_of(whole, replay).reports == 0
    assert first_start(traces) == 3.0


def test_made_up_traces_have_no_history() -> None:
    traces = image_study(seed=1, trials=3, steps=4)
    assert history_of(traces) is None
    cluster = Cluster(units=2, start_seconds=4.0)
    assert calibrate(traces, cluster) == cluster


def test_rounds_wait_for_the_slowest() -> None:
    trials = tuple(TrialTrace((0.1,) * n, (1.0,) * n) for n in (1, 4, 1, 4))
    traces = Traces("uneven", "x", Direction.MAXIMIZE, trials)
    assert simulate(traces, Default(), cluster=Cluster(units=2)).makespan == 6.0
    assert simulate(traces, Default(), cluster=Cluster(units=2), rounds=True).makespan == 8.0
