"""Messages for importing trials that were run outside of the platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class PastTrial(Message):
    """A completed trial of another platform.

    Attributes:
        number: Number of the trial on the other platform.
        params: Hyperparameters of the trial.
        values: A value for each metric of the study; None for a value that is not finite.
        curve: The trial's learning curve as (step, value) pairs; empty if it is unknown.
    """

    number: int
    params: dict[str, Any]
    values: list[float | None]
    curve: list[tuple[int, float]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class ImportRequest(Message):
    """A request to store trials of another platform as a run of a study.

    Attributes:
        config: Configuration of the study, to whose search space the trials must belong.
        source: Origin of the trials as a text for people; must not contain secrets.
        trials: The trials to import.
    """

    config: dict[str, Any]
    source: str
    trials: list[PastTrial]


@dataclass(frozen=True, kw_only=True)
class Imported(Message):
    """The result of an import.

    Attributes:
        study: Name of the study that now contains the imported trials.
        run_id: Run id of that study, which ``warm_start.run`` of another study can name.
        taken: Number of imported trials.
        left_out: Numbers of the trials that were not imported, by reason.
    """

    study: str
    run_id: str
    taken: int
    left_out: dict[str, list[int]] = field(default_factory=dict)


def left_out_lines(left_out: Mapping[str, Sequence[int]]) -> list[str]:
    """Returns one line of text for each reason for which trials were not imported."""
    return [
        f"left out {len(numbers)} ({_some(numbers)}): {reason}"
        for reason, numbers in left_out.items()
    ]


def _some(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
