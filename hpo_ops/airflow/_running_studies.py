"""Stores the configurations of running studies in files on this machine.

If the study file of a running study becomes invalid or is deleted, its DAG is built from the
stored configuration.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from hpo_ops.config import StudyConfig, StudyError, parse_study
from hpo_ops.protocol import write_atomically


def code_folder() -> Path:
    """Returns the folder of this machine into which code archives from the store are unpacked."""
    return _home() / "code"


def _home() -> Path:
    return Path(os.environ.get("AIRFLOW_HOME", Path.home() / "airflow")) / "hpo"


class RunningStudies:
    """A folder with one file for each running study.

    The task `prepare` writes the file, and the task `finalize` deletes it.

    Args:
        folder: The folder; by default a folder in Airflow's home.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or _home() / "running"

    def remember(self, dag_id: str, run_id: str, config: StudyConfig) -> None:
        """Writes a study's configuration to the study's file when the study starts."""
        self._folder.mkdir(parents=True, exist_ok=True)
        data = {"dag_id": dag_id, "run_id": run_id, "config": config.to_dict()}
        write_atomically(self._file(dag_id, run_id), json.dumps(data))

    def forget(self, dag_id: str, run_id: str) -> None:
        """Deletes the file of a study that has ended, if the file exists."""
        self._file(dag_id, run_id).unlink(missing_ok=True)

    def studies(self) -> dict[str, StudyConfig]:
        """Returns the configurations of the running studies by DAG id; skips unreadable files."""
        found: dict[str, StudyConfig] = {}
        for file in sorted(self._folder.glob("*.json")):
            try:
                data = json.loads(file.read_text(encoding="utf-8"))
                found[data["dag_id"]] = parse_study(
                    data["config"], source=str(file), is_entered=True
                )
            except (OSError, ValueError, KeyError, StudyError):
                continue  # ended meanwhile, or of another version
        return found

    def _file(self, dag_id: str, run_id: str) -> Path:
        digest = hashlib.sha256(f"{dag_id}\n{run_id}".encode()).hexdigest()[:16]
        return self._folder / f"{dag_id}-{digest}.json"
