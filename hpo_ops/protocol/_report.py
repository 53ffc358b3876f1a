"""A report: the metrics of a trial at one step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hpo_ops.protocol._message import Message, ProtocolError
from hpo_ops.protocol.field_checks import check_step, is_number

MAX_METRICS = 1000
"""Metrics of one report."""
MAX_NAME = 500
"""Characters of a metric's name."""

Metrics = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Report(Message):
    """One line of ``reports.jsonl``: a trial's metrics after a step, and the step's duration."""

    step: int
    metrics: Metrics
    seconds: float = 0.0

    def __post_init__(self) -> None:
        check_step(self.step)
        if not isinstance(self.metrics, dict) or not self.metrics:
            raise ProtocolError(f"metrics is {self.metrics!r}, but must be an object of numbers")
        if len(self.metrics) > MAX_METRICS:
            raise ProtocolError(
                f"{len(self.metrics)} metrics, but at most {MAX_METRICS} are accepted"
            )
        for name, value in self.metrics.items():
            if not is_number(value):
                raise ProtocolError(f"metric {name} is {value!r}, but must be a number")
            _check_name(name)
        if not is_number(self.seconds) or not 0 <= self.seconds < math.inf:
            raise ProtocolError(f"seconds is {self.seconds!r}, but must be a number, 0 or more")

    def check_metrics(self, names: Sequence[str]) -> None:
        """Refuses a report that a study with these metrics cannot use.

        Raises:
            ProtocolError: A metric is missing, or not a finite number.
        """
        for name in names:
            if name not in self.metrics:
                given = ", ".join(sorted(self.metrics))
                raise ProtocolError(f"step {self.step}: {name} is missing, found {given}")
        for name, value in self.metrics.items():
            if not math.isfinite(value):
                raise ProtocolError(
                    f"step {self.step}: {name} is {value}, but must be a finite number"
                )


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME:
        raise ProtocolError(
            f"metric {name[:40]!r}… has a name of {len(name)} characters, but at most {MAX_NAME} "
            "are accepted"
        )
    if "\x00" in name:
        raise ProtocolError(f"metric {name!r} has a NUL in its name, but must not")
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ProtocolError(f"metric {name!r} has a lone surrogate in its name")
