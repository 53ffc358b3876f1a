"""The numbers behind the plots, and the plots."""

from __future__ import annotations

from pathlib import Path

from hpo_ops.core import Direction
from hpo_ops.schedulers import Default
from hpo_ops.simulator import (
    Cluster,
    Traces,
    TrialTrace,
    compare,
    image_study,
    simulate,
)
from hpo_ops.simulator.replay_plots import (
    draw_allocation,
    draw_orders,
    draw_sensitivity,
    draw_times,
    draw_utilization,
    times_of,
    utilization_of,
)


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
