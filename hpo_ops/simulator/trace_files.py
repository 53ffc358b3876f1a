"""Reads and writes trace files: the traces of a study as JSON lines.

The first line is a header, every other line is a trial. A file whose name ends in ``.gz`` is
compressed. Unknown fields are ignored. Files of version 1, which have no steps and records, can be
read too.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import IO, Any
from zlib import error as ZlibError  # noqa: N812 (an exception, whatever its name)

from hpo_ops.core import Direction, TrialState
from hpo_ops.simulator.traces import (
    SegmentRecord,
    StudyTerms,
    TraceError,
    Traces,
    TrialRecord,
    TrialTrace,
)

FORMAT = "hpo-ops-traces"
VERSION = 2
READABLE = (1, 2)


def save_traces(traces: Traces, path: Path) -> None:
    """Writes traces to a file. The same traces always give the same JSON text."""
    with _open(path, "wt") as stream:
        stream.writelines(dump_traces(traces))


def dump_traces(traces: Traces) -> Iterator[str]:
    """Yields traces as the lines of a trace file."""
    header: dict[str, object] = {
        "format": FORMAT,
        "version": VERSION,
        "name": traces.name,
        "metric": traces.metric,
        "direction": traces.direction.value,
    }
    if traces.terms is not None:
        header["terms"] = asdict(traces.terms)
    yield json.dumps(header, allow_nan=False) + "\n"
    for trial in traces.trials:
        yield json.dumps(_dump_trial(trial), allow_nan=False) + "\n"


def _dump_trial(trial: TrialTrace) -> dict[str, object]:
    line: dict[str, object] = {
        "params": dict(trial.params),
        "values": [None if math.isnan(value) else value for value in trial.values],
        "seconds": trial.seconds,
    }
    if trial.steps:
        line["steps"] = trial.steps
    if trial.measured is not None:
        line["measured"] = trial.measured
    if trial.record is not None:
        line["record"] = {
            "trial": trial.record.trial,
            "state": trial.record.state.value,
            "times": trial.record.times,
            "segments": trial.record.segments,
        }
    return line


def load_traces(path: Path) -> Traces:
    """Reads a trace file.

    Raises:
        TraceError: The file cannot be read or is not a valid trace file; the message names the
            file and the line.
    """
    try:
        with _open(path, "rt") as stream:
            lines = [line for line in stream if line.strip()]
    except (OSError, EOFError, ZlibError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TraceError(f"{path}: cannot be read: {reason}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: is not UTF-8 text: {error.reason}") from error
    if not lines:
        raise TraceError(f"{path}: is empty, but must start with a header")
    header = _parse(path, 1, lines[0])
    if header.get("format") != FORMAT or header.get("version") not in READABLE:
        versions = " or ".join(map(str, READABLE))
        raise TraceError(f"{path}:1: is not the header of {FORMAT} version {versions}")
    trials = tuple(_trial(path, number, line) for number, line in enumerate(lines[1:], start=2))
    if not trials:
        raise TraceError(f"{path}: has no trials, but must have one or more")
    return Traces(
        name=str(header.get("name", path.stem)),
        metric=str(header.get("metric", "value")),
        direction=_direction(path, header.get("direction", Direction.MAXIMIZE.value)),
        trials=trials,
        terms=_terms(path, header.get("terms")),
    )


def _direction(path: Path, value: object) -> Direction:
    try:
        return Direction(str(value))
    except ValueError as error:
        raise TraceError(
            f"{path}:1: direction is {value!r}, but must be maximize or minimize"
        ) from error


def _terms(path: Path, data: object) -> StudyTerms | None:
    if data is None:
        return None
    if not isinstance(data, dict):
        raise TraceError(f"{path}:1: terms must be an object")
    known = {item.name for item in fields(StudyTerms)}
    for item in fields(StudyTerms):
        if item.default is item.default_factory is MISSING and item.name not in data:
            raise TraceError(f"{path}:1: terms.{item.name} is missing, but is required")
    values = {name: value for name, value in data.items() if name in known}
    if not isinstance(values["scheduler"], Mapping) or "name" not in values["scheduler"]:
        raise TraceError(f"{path}:1: terms.scheduler must be an object with a name")
    curves = values.get("curves")
    if curves is not None and not (isinstance(curves, Mapping) and "name" in curves):
        raise TraceError(f"{path}:1: terms.curves must be an object with a name")
    slots = values["slots"]
    if not isinstance(slots, int) or slots < 1:
        raise TraceError(f"{path}:1: terms.slots is {slots!r}, but must be 1 or more")
    return StudyTerms(**{**values, "silent": tuple(values.get("silent", ()))})


def _trial(path: Path, number: int, line: str) -> TrialTrace:
    data = _parse(path, number, line)
    params = data.get("params", {})
    if not isinstance(params, dict):
        raise TraceError(f"{path}:{number}: params must be an object")
    try:
        return TrialTrace(
            _numbers(data.get("values")),
            _numbers(data.get("seconds")),
            params,
            steps=_steps(data.get("steps", ())),
            measured=_measured(data.get("measured")),
            record=_record(data.get("record")),
        )
    except (TypeError, ValueError, KeyError) as error:
        text = f"{error.args[0]} is missing" if isinstance(error, KeyError) else error
        raise TraceError(f"{path}:{number}: {text}") from error


def _record(data: Any) -> TrialRecord | None:
    if data is None:
        return None
    return TrialRecord(
        trial=int(data["trial"]),
        state=TrialState(data["state"]),
        times=_numbers(data["times"]),
        segments=tuple(SegmentRecord(*item) for item in data["segments"]),
    )


def _steps(items: object) -> tuple[int, ...]:
    if not isinstance(items, Sequence) or not all(isinstance(item, int) for item in items):
        raise TraceError("steps must be a list of integers")
    return tuple(items)


def _measured(value: object) -> int | None:
    if value is not None and not isinstance(value, int):
        raise TraceError(f"measured is {value!r}, but must be an integer")
    return value


def _numbers(items: object) -> tuple[float, ...]:
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise TraceError("values and seconds must be lists of numbers")
    return tuple(float("nan") if item is None else float(item) for item in items)


def _parse(path: Path, number: int, line: str) -> dict[str, object]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}:{number}: is not JSON ({error})") from error
    if not isinstance(data, dict):
        raise TraceError(f"{path}:{number}: must be an object")
    return data


@contextmanager
def _open(path: Path, mode: str) -> Iterator[IO[str]]:
    if path.suffix == ".gz":
        with gzip.open(path, mode, encoding="utf-8") as packed:
            yield packed  # type: ignore[misc]  # opened as text
    else:
        with path.open(mode, encoding="utf-8") as stream:
            yield stream
