"""Comparisons of policies."""

from __future__ import annotations

from hpo_ops.core import Direction
from hpo_ops.schedulers import Asha, Default
from hpo_ops.simulator import (
    Cluster,
    Traces,
    TrialTrace,
    compare,
    image_study,
    oracle_seconds,
    summarize,
)


def test_policies_are_compared_on_the_same_orders() -> None:
    traces = image_study(seed=3, trials=10, steps=9)
    policies = {"default": Default(), "asha": Asha(max_steps=9)}
    outcomes = compare(traces, policies, cluster=Cluster(units=2), orders=3)
    assert [(o.policy, o.order) for o in outcomes] == [
        (name, order) for order in range(3) for name in policies
    ]
    rows = {row.policy: row for row in summarize(outcomes)}
    assert rows["asha"].seconds.mean < rows["default"].seconds.mean
    assert rows["default"].reached == 0
    assert rows["default"].trials.mean == 10
    assert rows["default"].seconds.least <= rows["default"].seconds.median


def test_the_oracle_starts_the_right_trial_first() -> None:
    trials = (TrialTrace((0.1, 0.9), (5.0, 5.0)), TrialTrace((0.1, 0.2, 0.9), (1.0, 1.0, 1.0)))
    traces = Traces("two", "accuracy", Direction.MAXIMIZE, trials)
    assert oracle_seconds(traces, 0.9, cluster=Cluster(units=1)) == 3.0
    assert oracle_seconds(traces, 0.95, cluster=Cluster(units=1)) is None
