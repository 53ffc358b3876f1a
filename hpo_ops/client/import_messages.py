"""The shapes of imports: trials that were run elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class PastTrial(Message):
    """A completed trial.

    Attributes:
        number: Its number where it was run.
        params: Its parameters.
        values: A value for each metric of the study; None for one that is no finite number.
        curve: Its reports (step, value), where it has any.
    """

    number: int
    params: dict[str, Any]
    values: list[float | None]
    curve: list[tuple[int, float]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class ImportRequest(Message):
    """Trials that were run elsewhere, to be known as a run of a study.

    Attributes:
        config: The study whose space they are held against.
        source: Where they come from, for people; nothing secret.
        trials: The trials.
    """

    config: dict[str, Any]
    source: str
    trials: list[PastTrial]


@dataclass(frozen=True, kw_only=True)
class Imported(Message):
    """What became of them.

    Attributes:
        study: The study that has them now.
        run_id: Its run, by which a warm start can name it.
        taken: How many were taken.
        left_out: Trials that were not, by the reason.
    """

    study: str
    run_id: str
    taken: int
    left_out: dict[str, list[int]] = field(default_factory=dict)


def left_out_lines(left_out: Mapping[str, Sequence[int]]) -> list[str]:
    """A sentence for each reason for which trials were left out."""
    return [
        f"left out {len(numbers)} ({_some(numbers)}): {reason}"
        for reason, numbers in left_out.items()
    ]


def _some(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
