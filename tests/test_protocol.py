from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.protocol import (
    MARKER,
    Action,
    Assignment,
    Cause,
    Control,
    Outcome,
    ProtocolError,
    Report,
    ReportReader,
    SegmentResult,
    Workspace,
    read_control,
    write_atomically,
)

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
numbers = st.floats(allow_nan=False)
reports = st.builds(
    Report,
    step=st.integers(0, 10**9),
    metrics=st.dictionaries(names, numbers, min_size=1, max_size=4),
    seconds=st.floats(0, 1e9),
)


@given(reports)
def test_a_report_survives_json(report: Report) -> None:
    assert Report.from_json(report.to_json()) == report


@given(
    st.sampled_from(Outcome),
    st.integers(0),
    st.text(),
    st.one_of(st.none(), st.integers(-64, 255)),
    st.sampled_from(Cause),
)
def test_a_result_survives_json(
    outcome: Outcome, step: int, reason: str, exit_code: int | None, cause: Cause
) -> None:
    result = SegmentResult(
        outcome=outcome, step=step, reason=reason, exit_code=exit_code, cause=cause
    )
    assert SegmentResult.from_json(result.to_json()) == result


@given(st.lists(reports, max_size=6), st.lists(st.integers(1, 80), max_size=30))
def test_reports_are_read_once_however_they_are_written(
    written: list[Report], cuts: list[int]
) -> None:
    data = b"".join(report.to_json().encode() + b"\n" for report in written)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "reports.jsonl")
        reader = ReportReader(path)
        read = list(reader.new())
        for cut in [*cuts, len(data)]:
            with path.open("ab") as stream:
                stream.write(data[:cut])
            data = data[cut:]
            read += reader.new()
    assert read == written


def test_a_result_of_an_older_agent_has_no_known_cause() -> None:
    assert SegmentResult.from_json('{"outcome": "failed"}').cause is Cause.UNKNOWN


def test_a_cause_of_a_newer_agent_is_read_as_unknown() -> None:
    result = SegmentResult.from_json('{"outcome": "failed", "cause": "struck_by_lightning"}')
    assert result.cause is Cause.UNKNOWN
    with pytest.raises(ProtocolError, match="7"):
        SegmentResult.from_json('{"outcome": "failed", "cause": 7}')


def test_unknown_fields_are_ignored() -> None:
    assert Control.from_json('{"action": "pause", "colour": "red"}').action is Action.PAUSE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Report: not JSON"),
        ("[" * 200_000, "Report: not JSON"),
        ("[]", "Report: is list, but must be an object"),
        ('{"metrics": {"a": 1}}', "Report: step is missing"),
        ('{"step": 1.5, "metrics": {"a": 1}}', "step is 1.5"),
        ('{"step": true, "metrics": {"a": 1}}', "step is True"),
        ('{"step": -1, "metrics": {"a": 1}}', "step is -1"),
        ('{"step": 1, "metrics": {}}', "metrics is {}"),
        ('{"step": 1, "metrics": {"a": "1"}}', "metrics['a'] is '1'"),
        ('{"step": 1, "metrics": {"a": null}}', "metrics['a'] is None"),
        ('{"step": 1, "metrics": {"a": 1}, "seconds": -1}', "seconds is -1"),
        ('{"step": 1, "metrics": {"a": 1}, "seconds": NaN}', "seconds is nan"),
    ],
)
def test_a_bad_report_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        Report.from_json(text)
    assert message in str(caught.value)


def test_a_number_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(ProtocolError, match="metric a is"):
        Report.from_json('{"step": 1, "metrics": {"a": 1' + "0" * 400 + "}}")


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": []},
        {"from_step": -1},
        {"until_step": 1.5},
        {"checkpoint_every": 0},
        {"protocol": 2},
    ],
)
def test_a_bad_assignment_names_the_field(change: dict[str, object]) -> None:
    good = {"study": "s", "trial": 0, "segment": "a", "params": {}, "metrics": ["m"]}
    Assignment.from_dict(good)
    with pytest.raises(ProtocolError, match=next(iter(change))):
        Assignment.from_dict(good | change)


def test_an_unknown_action_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="dance"):
        Control.from_json('{"action": "dance"}')


def test_steps_are_in_numeric_order_and_only_whole_ones(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    for name in ("9", "10", ".11.77", "notes"):
        (workspace.checkpoints / name).mkdir(parents=True)
        (workspace.checkpoints / name / MARKER).touch()
    (workspace.checkpoints / "12").mkdir()
    assert workspace.complete_steps() == [9, 10]


def test_control_is_continue_before_there_is_any(tmp_path: Path) -> None:
    path = tmp_path / "control.json"
    assert read_control(path) == Control()
    write_atomically(path, Control(action=Action.STOP, reason="enough").to_json())
    assert read_control(path) == Control(action=Action.STOP, reason="enough")
    assert [file.name for file in tmp_path.iterdir()] == ["control.json"]
