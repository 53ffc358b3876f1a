"""Runs training code outside of a trial, for example in a notebook."""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from hpo_ops.protocol import Assignment, Outcome, Report

PARAMS_VARIABLE = "HPO_PARAMS"


class StandaloneContext:
    """The context of training code outside of a trial: prints reports and discards checkpoints."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        warnings.warn(
            f"not in a trial: parameters come from {PARAMS_VARIABLE}, and reports are printed",
            stacklevel=4,
        )
        self.assignment = Assignment(
            study="", trial=0, segment="", params=_read_params(environment), metrics=["value"]
        )
        self.restored: Path | None = None
        self.start_clock()

    def start_clock(self) -> None:
        self._since = time.monotonic()

    def write(self, step: int, metrics: Mapping[str, float]) -> Report:
        now = time.monotonic()
        report = Report(step=step, metrics=dict(metrics), seconds=now - self._since)
        self._since = now
        values = "  ".join(f"{name} {value:g}" for name, value in metrics.items())
        sys.stdout.write(f"step {step}  {values}  ({report.seconds:.2f} s)\n")
        return report

    @cached_property
    def checkpoints(self) -> Path:
        self._folder = tempfile.TemporaryDirectory(prefix="checkpoints-")
        return Path(self._folder.name)

    @contextmanager
    def checkpoint(self, step: int) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix=f"checkpoint-{step}-") as folder:
            yield Path(folder)

    def is_saved(self, step: int) -> bool:
        return True

    def requested_end(self) -> tuple[Outcome, str] | None:
        return None

    def end(self, outcome: Outcome, step: int, reason: str) -> None:
        pass


def _read_params(environment: Mapping[str, str]) -> dict[str, bool | int | float | str | None]:
    text = environment.get(PARAMS_VARIABLE, "{}")
    try:
        params = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{PARAMS_VARIABLE} is {text!r}, but must be JSON ({error})") from error
    if not isinstance(params, dict):
        raise ValueError(f"{PARAMS_VARIABLE} is {text!r}, but must be a JSON object")
    return params
