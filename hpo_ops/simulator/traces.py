"""Traces: what every trial of a study would report, step by step, if it ran to its end."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import IO

from hpo_ops.core import Direction, derive_seed
from hpo_ops.protocol import ParamValue

FORMAT = "hpo-ops-traces"
VERSION = 1


class TraceError(ValueError):
    """A file is not a trace."""


@dataclass(frozen=True)
class TrialTrace:
    """One trial: the value after each step and the seconds that the step took on one unit."""

    values: tuple[float, ...]
    seconds: tuple[float, ...]
    params: Mapping[str, ParamValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.values) != len(self.seconds):
            raise TraceError(
                f"a trial has {len(self.values)} values and {len(self.seconds)} seconds, "
                "but must have as many of both"
            )
        if not self.values:
            raise TraceError("a trial has no steps, but must have one or more")
        if min(self.seconds) < 0:
            raise TraceError(f"a step took {min(self.seconds)} seconds, but must take 0 or more")


@dataclass(frozen=True)
class Traces:
    """A study to replay.

    Attributes:
        name: The study's name.
        metric: The metric's name.
        direction: Which way it is better.
        trials: The trials in the order in which a sampler would give them.
    """

    name: str
    metric: str
    direction: Direction
    trials: tuple[TrialTrace, ...]

    @property
    def max_steps(self) -> int:
        """Steps of the longest trial."""
        return max(len(trial.values) for trial in self.trials)

    def reorder(self, seed: int) -> Traces:
        """The same trials in another order; seed 0 keeps the order."""
        if seed == 0:
            return self
        random = Random(derive_seed(seed, "order"))  # noqa: S311 (no secret)
        trials = list(self.trials)
        random.shuffle(trials)
        return replace(self, trials=tuple(trials))


def save_traces(traces: Traces, path: Path) -> None:
    """Writes a file of JSON lines: a header, then a line a trial; packed if it ends in ``.gz``."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "name": traces.name,
        "metric": traces.metric,
        "direction": traces.direction,
    }
    with _open(path, "wt") as stream:
        stream.write(json.dumps(header) + "\n")
        for trial in traces.trials:
            line = {
                "params": dict(trial.params),
                "values": trial.values,
                "seconds": trial.seconds,
            }
            stream.write(json.dumps(line) + "\n")


def load_traces(path: Path) -> Traces:
    """Reads what ``save_traces`` wrote.

    Raises:
        TraceError: The file is not a trace; the message names the file and the line.
    """
    with _open(path, "rt") as stream:
        lines = [line for line in stream if line.strip()]
    if not lines:
        raise TraceError(f"{path}: is empty, but must start with a header")
    header = _parse(path, 1, lines[0])
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise TraceError(f"{path}:1: is not the header of {FORMAT} version {VERSION}")
    trials = tuple(_trial(path, number, line) for number, line in enumerate(lines[1:], start=2))
    if not trials:
        raise TraceError(f"{path}: has no trials, but must have one or more")
    return Traces(
        name=str(header.get("name", path.stem)),
        metric=str(header.get("metric", "value")),
        direction=Direction(str(header.get("direction", Direction.MAXIMIZE))),
        trials=trials,
    )


def _trial(path: Path, number: int, line: str) -> TrialTrace:
    data = _parse(path, number, line)
    values, seconds, params = data.get("values"), data.get("seconds"), data.get("params", {})
    if not isinstance(params, dict):
        raise TraceError(f"{path}:{number}: params must be an object")
    try:
        return TrialTrace(_numbers(values), _numbers(seconds), params)
    except (TypeError, ValueError) as error:
        raise TraceError(f"{path}:{number}: {error}") from error


def _numbers(items: object) -> tuple[float, ...]:
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise TraceError("values and seconds must be lists of numbers")
    return tuple(float("nan") if item is None else float(item) for item in items)


def _parse(path: Path, number: int, line: str) -> dict[str, object]:
    try:
        data = json.loads(line)
    except ValueError as error:
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
