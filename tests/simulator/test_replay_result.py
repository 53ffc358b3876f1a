"""The result of a replay."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hpo_ops.schedulers import Default
from hpo_ops.simulator import Cluster, Replay, simulate
from tests.simulator.plain_traces import traces_of


@pytest.fixture
def replay() -> Replay:
    """Two trials of 4 and 2 steps, one second each, on two units."""
    return simulate(traces_of(4, 2), Default(), cluster=Cluster(units=2))


def test_the_log_is_one_json_object_a_line(replay: Replay) -> None:
    lines = [json.loads(line) for line in replay.to_jsonl().splitlines()]
    assert len(lines) == len(replay.log)
    assert lines[0] == {
        "time": 0.0,
        "kind": "start",
        "trial": 0,
        "step": 0,
        "reason": "trial 0 is new, and a slot is free",
    }


def test_unit_seconds_and_utilization_follow_from_the_segments(replay: Replay) -> None:
    assert replay.unit_seconds == 6.0
    assert replay.utilization == 0.75


def test_utilization_counts_the_units_of_each_moment(replay: Replay) -> None:
    more = replace(replay, capacity=((0.0, 2), (3.0, 6)))
    assert more.utilization == pytest.approx(6.0 / (2 * 3 + 6))


def test_the_time_to_a_value_is_when_it_was_first_reached(replay: Replay) -> None:
    best = replay.best[-1][1]
    assert replay.time_to(best) == replay.best[-1][0]
    assert replay.time_to(best + 1) is None
