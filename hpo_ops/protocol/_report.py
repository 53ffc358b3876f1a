"""A report: the metrics of a trial at one step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hpo_ops.protocol._message import Message, ProtocolError
from hpo_ops.protocol.field_checks import check_step, is_number

MAX_METRICS = 1000
"""Maximum number of metrics in one report."""
MAX_NAME = 500
"""Maximum number of characters in the name of a metric."""

Metrics = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Report(Message):
    """The metrics of a trial after a step, as one line of the file ``reports.jsonl``.

    Attributes:
        step: The step that was trained.
        metrics: Values of the metrics by name.
        seconds: Training time since the previous report, in seconds.
    """

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
        """Checks that the report has all metrics of a study, and that all its values are finite.

        Args:
            names: Names of the study's metrics.

        Raises:
            ProtocolError: A metric of the study is missing, or a value is not a finite number.
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
