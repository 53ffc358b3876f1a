"""Traces, synthetic studies, comparison and plots."""

from __future__ import annotations

import math
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
from hpo_ops.simulator.extrapolation import Unseen, fill_unseen
from hpo_ops.simulator.replay_plots import (
    draw_allocation,
    draw_orders,
    draw_sensitivity,
    draw_times,
    draw_utilization,
    times_of,
    utilization_of,
)
from tests.recordings import recorded


@pytest.mark.parametrize("name", ["study.jsonl", "study.jsonl.gz"])
def test_traces_survive_a_file(tmp_path: Path, name: str) -> None:
    traces = image_study(seed=3, trials=4, steps=5)
    save_traces(traces, tmp_path / name)
    assert load_traces(tmp_path / name) == traces


@pytest.mark.parametrize("rounds", [False, True])
def test_recorded_traces_survive_a_file_to_the_letter(tmp_path: Path, rounds: bool) -> None:
    source = image_study(seed=3, trials=9, steps=9)
    traces = recorded(source, cluster=Cluster(units=2), rounds=rounds)
    save_traces(traces, tmp_path / "a.jsonl")
    assert load_traces(tmp_path / "a.jsonl") == traces
    save_traces(load_traces(tmp_path / "a.jsonl"), tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()
    filled = fill_unseen(traces, Unseen.HOLD, last_step=9)
    save_traces(filled, tmp_path / "c.jsonl")
    assert load_traces(tmp_path / "c.jsonl") == filled


def test_a_value_that_is_no_number_is_null_in_the_file(tmp_path: Path) -> None:
    trial = TrialTrace((0.1, math.nan), (1.0, 1.0), steps=(2, 5))
    save_traces(Traces("one", "loss", Direction.MINIMIZE, (trial,)), tmp_path / "x.jsonl")
    assert '"values": [0.1, null]' in (tmp_path / "x.jsonl").read_text()
    (read,) = load_traces(tmp_path / "x.jsonl").trials
    assert math.isnan(read.values[1])
    assert read.steps == (2, 5)
    assert Traces("one", "loss", Direction.MINIMIZE, (trial,)).settled_value() == 0.1


def test_the_example_on_the_page_is_a_file_of_traces(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "planning.md"
    text = page.read_text("utf-8").partition("```json\n")[2].partition("```")[0]
    (tmp_path / "mine.jsonl").write_text(text)
    assert load_traces(tmp_path / "mine.jsonl").trials[0].values == (0.61, 0.72, 0.75)


def test_a_first_version_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text(
        '{"format":"hpo-ops-traces","version":1,"name":"old","direction":"minimize"}\n'
        '{"values":[1.0],"seconds":[2.0],"params":{}}\n'
    )
    traces = load_traces(tmp_path / "old.jsonl")
    assert (traces.direction, traces.terms, traces.max_steps) == (Direction.MINIMIZE, None, 1)


HEADER = '{"format":"hpo-ops-traces","version":2%s}\n'
TRIAL = '{"values":[1,2],"seconds":[1,1]%s}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER % ',"direction":"up"' + TRIAL % "", ":1: direction is 'up', but must be max"),
        (HEADER % ',"terms":[]' + TRIAL % "", ":1: terms must be an object"),
        (HEADER % ',"terms":{"run":"r"}' + TRIAL % "", ":1: terms.scheduler is missing"),
        (
            HEADER % ',"terms":{"run":"r","scheduler":{"name":"asha"},"slots":0,"rounds":true}'
            + TRIAL % "",
            ":1: terms.slots is 0, but must be 1 or more",
        ),
        (HEADER % "" + TRIAL % ',"steps":[1]', ":2: a trial has 2 values and 1 steps"),
        (HEADER % "" + TRIAL % ',"steps":[2,1]', ":2: steps must be 0 or more and rise"),
        (HEADER % "" + TRIAL % ',"steps":"12"', ":2: steps must be a list of integers"),
        (HEADER % "" + TRIAL % ',"measured":3', ":2: measured is 3, but must be from 0 to 2"),
        (HEADER % "" + TRIAL % ',"record":{"trial":1}', ":2: state is missing"),
        (HEADER % "" + '{"values":[1e999],"seconds":[1]}\n', ":2: a value is infinite"),
        (
            HEADER % ""
            + TRIAL % ',"record":{"trial":1,"state":"pruned","times":[],"segments":[]}',
            ":2: a trial has 2 values and 0 times",
        ),
    ],
)
def test_a_wrong_line_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(TraceError) as error:
        load_traces(path)
    assert f"bad.jsonl{message}" in str(error.value)


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "packed.gz").write_text("not packed")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe")
    for name in ("none.jsonl", "packed.gz", "binary.jsonl"):
        with pytest.raises(TraceError, match=name):
            load_traces(tmp_path / name)


def test_trials_are_drawn_again_and_again() -> None:
    traces = image_study(seed=3, trials=5, steps=3)
    drawn = traces.resample(40, 1)
    assert len(drawn.trials) == 40
    assert set(map(id, drawn.trials)) <= set(map(id, traces.trials))
    assert traces.resample(40, 1) == drawn
    assert traces.resample(40, 2) != drawn


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
