"""The start of a study: what `prepare` sends, and what the tasks of the DAG run get."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hpo_ops.protocol import Message, Provenance


@dataclass(frozen=True, kw_only=True)
class StudyRequest(Message):
    """A request to start a study for a DAG run.

    Attributes:
        config: The study's configuration, as plain data.
        task_group: The task group that is the study; empty where the DAG is one study.
        owner: The person who triggered the DAG run; None for a scheduled run.
        capacity: Capacity of the study's pool, where it could be counted.
        origin: Provenance of its trials, as far as it is known before they start.
        archive: Name of the packed code in the store; None if trials use the code folder.
        packages: Arguments for ``pip install``, for the code's requirements.
        experiment: The DAG run of the first repeat, if this study is one of several repeats.
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
    """The identity of a study and its configuration, for the tasks of its DAG run.

    The configuration travels as one value; `hpo_ops.config.read_entered` decodes it. Tasks may
    read every key of it except those that can be changed while a study runs (`CHANGEABLE`): only
    the gateway has their current values.

    Attributes:
        key: The study's name in Optuna and in the checkpoint store.
        config: The configuration as JSON text, since XCom does not keep the order of keys.
        archive: Name of the packed code in the store; None if trials use the code folder.
        packages: Arguments for ``pip install``, for the code's requirements.
        code_hash: Hash of the code folder when the study started.
        notes: Remarks for the log of `prepare`.
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
