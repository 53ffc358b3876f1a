"""The study that a task belongs to, once `prepare` has entered it: handle, config, checkpoints."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hpo_ops.airflow.connections import store_credentials
from hpo_ops.checkpoints import Checkpoints, open_store
from hpo_ops.client import StudyHandle
from hpo_ops.config import StudyConfig, read_entered

if TYPE_CHECKING:
    from airflow.sdk import Context

PREPARE = "prepare"
"""Id of the task that enters the study."""
HANDLE = "study"
"""XCom key under which `prepare` hands the study to later tasks."""


def entered_study(context: Context) -> StudyHandle | None:
    """The study as `prepare` handed it on; None where `prepare` failed."""
    handle = context["ti"].xcom_pull(task_ids=PREPARE, key=HANDLE)
    return StudyHandle.from_dict(handle) if handle else None


def config_of(study: StudyHandle) -> StudyConfig:
    """The configuration of the study that a task belongs to; decoded once a process."""
    return read_entered(study.config, source=f"study {study.key}")


def open_checkpoints(study: StudyHandle) -> Checkpoints:
    """The study's checkpoints, as a worker reaches them."""
    store = config_of(study).checkpoints.store or ""
    open_it = partial(open_store, store, store_credentials())
    return Checkpoints(open_it, study.key, uri=store)
