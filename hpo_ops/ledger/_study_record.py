"""A study in the ledger: its identity, state and configuration as a frozen record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Row

from hpo_ops.config import StudyConfig, read_entered
from hpo_ops.protocol import Provenance


class StudyState(StrEnum):
    """The state of a study.

    A ``STOPPING`` study starts no segment, and its running trials are told to stop. A study with
    folds may be ``RETRAINING`` after that: its best parameters are trained on all data.
    """

    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    RETRAINING = "retraining"
    ENDED = "ended"


@dataclass(frozen=True)
class StudyRecord:
    """A study, as it was when it was read.

    Attributes:
        key: The study's name in Optuna and in the checkpoint store.
        owner: The person who triggered its DAG run; None where nobody did, as for a schedule.
        share: DAGs with which it shares its trials.
    """

    id: int
    name: str
    run_id: str
    dag_id: str
    key: str
    config: StudyConfig
    state: StudyState
    reason: str
    started_at: datetime
    ended_at: datetime | None
    result: Mapping[str, Any] | None
    origin: Provenance
    task_group: str = ""
    owner: str | None = None
    share: Sequence[str] = ()
    archive: str | None = None
    packages: Sequence[str] = ()
    experiment: str | None = None
    repeat: int = 0
    retraining: int | None = None

    @property
    def is_over(self) -> bool:
        return self.state in (StudyState.STOPPING, StudyState.ENDED)

    @property
    def is_searching(self) -> bool:
        """Whether there may be more trials, now or after a pause."""
        return self.state in (StudyState.RUNNING, StudyState.PAUSED)


def read_record(row: Row[Any]) -> StudyRecord:
    """A study from a row that has all columns of the table of studies."""
    values = dict(row._mapping)
    return StudyRecord(
        id=values["id"],
        name=values["name"],
        run_id=values["run_id"],
        dag_id=values["dag_id"],
        key=values["key"],
        task_group=values["task_group"],
        owner=values["owner"],
        share=tuple(values["share"]),
        config=read_entered(
            json.dumps(values["config"]), source=f"study {values['name']} in the ledger"
        ),
        state=StudyState(values["state"]),
        reason=values["reason"],
        started_at=values["at"],
        ended_at=values["ended_at"],
        result=values["result"],
        origin=Provenance.from_dict(values["origin"]),
        archive=values["archive"],
        packages=values["packages"],
        experiment=values["experiment"],
        repeat=values["repeat"],
        retraining=values["retraining"],
    )
