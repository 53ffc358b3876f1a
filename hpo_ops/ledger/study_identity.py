"""Identities of studies, and their unique keys in the checkpoint store and in Optuna."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from hpo_ops.config.runner_registry import generic_dags

RESERVED = frozenset({"archives", "code"})
"""Names of top-level folders of a checkpoint store that do not belong to a study."""


@dataclass(frozen=True)
class StudyIdentity:
    """The identity of a study, from Airflow's ids rather than from text that users choose.

    Attributes:
        dag_id: Id of the DAG.
        run_id: Id of the DAG run, which is unique only within a DAG.
        task_group: Id of the task group that runs the study; empty if the whole DAG is one study.
    """

    dag_id: str
    run_id: str
    task_group: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 hash of the DAG, DAG run and task group, as 64 hexadecimal digits."""
        text = json.dumps([self.dag_id, self.run_id, self.task_group])
        return hashlib.sha256(text.encode()).hexdigest()


def is_generic(dag_id: str) -> bool:
    """Returns whether a DAG is generic: it runs any study that its trigger conf defines."""
    return dag_id in generic_dags().values()


def study_keys(name: str, identity: StudyIdentity) -> tuple[str, str]:
    """Returns the preferred key of a study, and a fallback for when another study has that key.

    A key is a path of two parts: the name of the study and its DAG run. For a study with its own
    DAG of the same name, the second part is the run id. Any other study could imitate the name and
    run id of somebody else's study, so that its key ends with a part of the identity's hash.

    >>> study_keys("digits", StudyIdentity("digits", "manual"))[0]
    'digits/manual'
    >>> study_keys("digits", StudyIdentity("hpo_study", "manual"))[0]
    'digits/manual-774b69132779'
    """
    folder = f"study-{name}" if name.lower() in RESERVED else name
    run = re.sub(r"[^A-Za-z0-9_.-]", "-", identity.run_id)
    preferred = run
    if identity.dag_id != name or identity.task_group:
        preferred = f"{run}-{identity.digest[:12]}"
    elif run != identity.run_id or not run.strip("."):
        preferred = f"{run}-{hashlib.sha256(identity.run_id.encode()).hexdigest()[:6]}"
    return f"{folder}/{preferred}", f"{folder}/{run}-{identity.digest}"
