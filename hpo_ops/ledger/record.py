"""A study's row in the ledger."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hpo_ops.config import StudyConfig
from hpo_ops.protocol import Provenance


class StudyState(StrEnum):
    """Where a study is in its life.

    ``STOPPING`` starts nothing new and saves what runs. ``RETRAINING`` comes after that in a study
    with folds that wants it: its search is over, and its best trial is trained on all data.
    """

    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    RETRAINING = "retraining"
    ENDED = "ended"


def study_key(name: str, run_id: str) -> str:
    """A study's name and its DAG run, as a path.

    A run id with characters that are awkward in paths is written without them, and a few letters
    of its hash keep it apart from others.
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", run_id)
    if plain != run_id:
        plain += f"-{hashlib.sha256(run_id.encode()).hexdigest()[:6]}"
    return f"{name}/{plain}"


@dataclass(frozen=True)
class StudyRecord:
    """A study's row."""

    id: int
    name: str
    run_id: str
    dag_id: str
    config: StudyConfig
    state: StudyState
    reason: str
    started_at: datetime
    ended_at: datetime | None
    result: Mapping[str, Any] | None
    origin: Provenance
    archive: str | None = None
    packages: Sequence[str] = ()
    experiment: str | None = None
    repeat: int = 0
    retraining: int | None = None

    @property
    def key(self) -> str:
        """The study's name in Optuna and in the checkpoint store."""
        return study_key(self.name, self.run_id)

    @property
    def is_over(self) -> bool:
        return self.state in (StudyState.STOPPING, StudyState.ENDED)

    @property
    def is_searching(self) -> bool:
        """Whether there may be more trials, now or after a pause."""
        return self.state in (StudyState.RUNNING, StudyState.PAUSED)
