"""Traces, synthetic studies, comparison and plots."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpo_ops.core import Direction
from hpo_ops.schedulers import Asha, Default
from hpo_ops.simulator import (
    Cluster,
    TraceError,
    Traces,
    TrialTrace,
    compare,
    game_study,
    image_study,
    load_traces,
    oracle_seconds,
    save_traces,
    simulate,
    slow_study,
    summarize,
    uneven_study,
)
from hpo_ops.simulator.plots import (
    draw_allocation,
    draw_orders,
    draw_sensitivity,
    draw_times,
    draw_utilization,
    times_of,
    utilization_of,
)


@pytest.mark.parametrize("name", ["study.jsonl", "study.jsonl.gz"])
def test_traces_survive_a_file(tmp_path: Path, name: str) -> None:
    traces = image_study(seed=3, trials=4, steps=5)
    save_traces(traces, tmp_path / name)
    assert load_traces(tmp_path / name) == traces


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("{}\n", ":1: is not the header"),
        ("no\n", ":1: is not JSON"),
        ('{"format":"hpo-ops-traces","version":1}\n', "has no trials"),
        ('{"format":"hpo-ops-traces","version":1}\n{"values":[1],"seconds":[]}\n', ":2: a trial"),
        ('{"format":"hpo-ops-traces","version":1}\n{"values":"x","seconds":[]}\n', ":2: values"),
        ('{"format":"hpo-ops-traces","version":1}\n[]\n', ":2: must be an object"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(TraceError, match=message) as error:
        load_traces(path)
    assert "bad.jsonl" in str(error.value)


def test_a_trial_needs_steps_that_take_time() -> None:
    with pytest.raises(TraceError, match="no steps"):
        TrialTrace((), ())
    with pytest.raises(TraceError, match="took -1"):
        TrialTrace((0.1,), (-1.0,))


def test_an_order_is_a_permutation_and_repeats() -> None:
    traces = image_study(seed=3, trials=20, steps=2)
    assert traces.reorder(0) is traces
    assert traces.reorder(4) == traces.reorder(4)
    assert traces.reorder(4) != traces.reorder(5)
    key = lambda trial: trial.params["index"]  # noqa: E731
    assert sorted(traces.reorder(4).trials, key=key) == list(traces.trials)


@pytest.mark.parametrize("make", [image_study, game_study, slow_study, uneven_study])
def test_synthetic_studies_follow_from_their_seed(make: object) -> None:
    assert callable(make)
    assert make(seed=1, trials=3, steps=4) == make(seed=1, trials=3, steps=4)
    assert make(seed=1, trials=3, steps=4) != make(seed=2, trials=3, steps=4)


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


def test_the_numbers_behind_the_plots() -> None:
    traces = Traces("one", "x", Direction.MAXIMIZE, (TrialTrace((0.1,) * 4, (1.0,) * 4),) * 3)
    replay = simulate(traces, Default(), cluster=Cluster(units=2))
    info = utilization_of(replay, points=4)
    assert info.times == (0.0, 2.0, 4.0, 6.0)
    assert info.shares == (1.0, 1.0, 0.5, 0.5)
    outcomes = compare(traces, {"default": Default()}, cluster=Cluster(units=2), orders=2)
    assert times_of(outcomes) == ({"default": (8.0, 8.0)}, {"default": ()})
    outcomes = compare(
        traces, {"default": Default()}, cluster=Cluster(units=2), orders=2, target=0.1
    )
    assert times_of(outcomes) == ({"default": (1.0, 1.0)}, {"default": (1.0, 1.0)})


def test_plots_are_written(tmp_path: Path) -> None:
    traces = image_study(seed=3, trials=6, steps=4)
    replay = simulate(traces, Default(), cluster=Cluster(units=2))
    outcomes = compare(traces, {"default": Default()}, cluster=Cluster(units=2), orders=2)
    for name, draw in {
        "use.png": lambda path: draw_utilization({"default": utilization_of(replay)}, path),
        "who.png": lambda path: draw_allocation(replay, path),
        "units.png": lambda path: draw_sensitivity({"default": [(2, 9.0), (4, 5.0)]}, path),
        "orders.png": lambda path: draw_orders(times_of(outcomes), path),
        "times.png": lambda path: draw_times(times_of(outcomes), path),
    }.items():
        draw(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
