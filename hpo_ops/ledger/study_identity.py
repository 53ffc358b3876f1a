"""What tells studies apart, and the names of studies in the checkpoint store and in Optuna."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from hpo_ops.config.runner_registry import generic_dags

RESERVED = frozenset({"archives", "code"})
"""Top-level folders of a checkpoint store that are not studies."""


@dataclass(frozen=True)
class StudyIdentity:
    """The identity of a study: Airflow vouches for it, the study's own text does not.

    Attributes:
        dag_id: The DAG.
        run_id: The DAG run; Airflow keeps run ids unique within a DAG only.
        task_group: The task group that is the study; empty where the whole DAG is one study.
    """

    dag_id: str
    run_id: str
    task_group: str = ""

    @property
    def digest(self) -> str:
        """A hash of all three parts, as 64 hexadecimal digits."""
        text = json.dumps([self.dag_id, self.run_id, self.task_group])
        return hashlib.sha256(text.encode()).hexdigest()


def is_generic(dag_id: str) -> bool:
    """Whether a DAG takes studies of many people from its trigger, and so belongs to none."""
    return dag_id in generic_dags().values()


def study_keys(name: str, identity: StudyIdentity) -> tuple[str, str]:
    """The preferred key of a study, and the one to use where another study has that already.

    A key is a path of two parts: the study's name and its run. The key of a study that has a DAG
    of its own is as readable as its run id allows. Any other study could choose its name and run
    id to look like somebody else's, so that its key ends with a part of the identity's hash.

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
