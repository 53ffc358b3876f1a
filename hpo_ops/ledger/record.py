"""A study's row in the ledger."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hpo_ops.config import StudyConfig


class StudyState(StrEnum):
    """Where a study is in its life. ``STOPPING`` starts nothing new and saves what runs."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    ENDED = "ended"


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

    @property
    def key(self) -> str:
        """The study's name in Optuna and in the checkpoint store: its name and its DAG run.

        A run id with characters that are awkward in paths is written without them, and a few
        letters of its hash keep it apart from others.
        """
        plain = re.sub(r"[^A-Za-z0-9_.-]", "-", self.run_id)
        if plain != self.run_id:
            plain += f"-{hashlib.sha256(self.run_id.encode()).hexdigest()[:6]}"
        return f"{self.name}/{plain}"

    @property
    def is_over(self) -> bool:
        return self.state in (StudyState.STOPPING, StudyState.ENDED)
