"""Frozen record of a study's row: identity, state and configuration."""

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
    """The possible states of a study: running, paused, stopping, retraining, ended.

    A ``STOPPING`` study starts no segments, and its running trials are requested to stop. A study
    with folds may be ``RETRAINING`` after the search: a trial trains the best hyperparameters on
    all data.
    """

    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    RETRAINING = "retraining"
    ENDED = "ended"


@dataclass(frozen=True)
class StudyRecord:
    """A study at the time at which its row was read.

    Attributes:
        key: Unique name of the study in Optuna and in the checkpoint store.
        reason: Why the study is in its state, as a sentence for people.
        result: Content of the study's `result.json`; None if no result is recorded.
        origin: Known provenance (code, image, packages) of the study's trials.
        task_group: Task group that runs the study; empty if the whole DAG is one study.
        owner: The person who triggered the DAG run; None if it was triggered automatically.
        share: Ids of the DAGs with whose studies the study shares its trials.
        archive: Name of the study's code archive in the object store; None without an archive.
        packages: Packages that pip installs for the study's code.
        experiment: Id of the DAG run of the first repeat; None if the study is not repeated.
        repeat: Number of this repeat within the experiment.
        retraining: Number of the trial that trains the best hyperparameters on all data; None if
            the study has no such trial.
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
        """Whether the study is stopping or has ended."""
        return self.state in (StudyState.STOPPING, StudyState.ENDED)

    @property
    def is_searching(self) -> bool:
        """Whether the study can still add trials: it is running or paused."""
        return self.state in (StudyState.RUNNING, StudyState.PAUSED)


def read_record(row: Row[Any]) -> StudyRecord:
    """Converts a row with all columns of the table `studies` into a `StudyRecord`."""
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
