"""Trace files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hpo_ops.core import Direction
from hpo_ops.simulator import (
    Cluster,
    TraceError,
    Traces,
    TrialTrace,
    image_study,
    load_traces,
    save_traces,
)
from hpo_ops.simulator.extrapolation import Unseen, fill_unseen
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
