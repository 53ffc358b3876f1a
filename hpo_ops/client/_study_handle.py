"""The start of a study: the request of the task `prepare`, and the gateway's answer to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hpo_ops.protocol import Message, Provenance


@dataclass(frozen=True, kw_only=True)
class StudyRequest(Message):
    """A request to start a study for a DAG run.

    Attributes:
        config: The study's configuration, as JSON data.
        dag_id: Id of the DAG.
        run_id: Id of the DAG run.
        task_group: Task group of the study; empty if the whole DAG is one study.
        owner: The person who triggered the DAG run; None for a scheduled run.
        capacity: Number of resource units (such as GPUs) in the study's pool; None if they could
            not be counted.
        origin: Provenance of the study's trials (code, image) that is known before they start.
        archive: Name of the code archive in the store; None if trials use the code folder.
        packages: Arguments for ``pip install``, for the code's requirements.
        experiment: DAG run id of the first repeat, if this study is one of several repeats.
        repeat: Number of the repeat; the first is 0.
    """

    config: dict[str, Any]
    dag_id: str
    run_id: str
    task_group: str = ""
    owner: str | None = None
    capacity: float | None = None
    origin: Provenance = field(default_factory=Provenance)
    archive: str | None = None
    packages: list[str] = field(default_factory=list)
    experiment: str | None = None
    repeat: int = 0


@dataclass(frozen=True, kw_only=True)
class StudyHandle(Message):
    """The identity and configuration of a study, for the tasks of its DAG run.

    Tasks decode the configuration with `hpo_ops.config.read_entered`. They must not read keys
    that can be changed while a study runs (`CHANGEABLE`): only the gateway has the current values
    of these keys.

    Attributes:
        id: Id of the study in the ledger.
        name: Name of the study.
        run_id: Id of the DAG run.
        key: The study's name in Optuna and in the checkpoint store.
        config: The configuration as JSON text, since XCom does not preserve the order of keys.
        archive: Name of the code archive in the store; None if trials use the code folder.
        packages: Arguments for ``pip install``, for the code's requirements.
        code_hash: Hash of the code folder when the study started.
        notes: Sentences that the task `prepare` writes to its log.
    """

    id: int
    name: str
    run_id: str
    key: str
    config: str
    archive: str | None = None
    packages: list[str] = field(default_factory=list)
    code_hash: str | None = None
    notes: list[str] = field(default_factory=list)
