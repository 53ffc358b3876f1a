"""Gives a task the handle, the configuration and the checkpoints of the study it belongs to.

The study must have been entered in the ledger by the task `prepare`.
"""

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
"""Id of the task that enters the study in the ledger."""
HANDLE = "study"
"""XCom key under which `prepare` pushes the study's handle for later tasks."""


def entered_study(context: Context) -> StudyHandle | None:
    """Returns the study's handle that `prepare` pushed to XCom, or None if `prepare` failed."""
    handle = context["ti"].xcom_pull(task_ids=PREPARE, key=HANDLE)
    return StudyHandle.from_dict(handle) if handle else None


def config_of(study: StudyHandle) -> StudyConfig:
    """Returns a study's configuration; it is decoded only once in each process."""
    return read_entered(study.config, source=f"study {study.key}")


def open_checkpoints(study: StudyHandle) -> Checkpoints:
    """Opens the study's checkpoints in the store, with the credentials of the platform."""
    store = config_of(study).checkpoints.store or ""
    open_it = partial(open_store, store, store_credentials())
    return Checkpoints(open_it, study.key, uri=store)
