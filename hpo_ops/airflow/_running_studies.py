"""The configurations of running studies on this machine.

The DAG of a running study is built from here when its file is broken or deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from hpo_ops.config import StudyConfig, StudyError, parse_study
from hpo_ops.protocol import write_atomically


def code_folder() -> Path:
    """Folder of this machine for code from the store."""
    return _home() / "code"


def _home() -> Path:
    return Path(os.environ.get("AIRFLOW_HOME", Path.home() / "airflow")) / "hpo"


class RunningStudies:
    """One file for each running study: written by `prepare`, deleted by `finalize`."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or _home() / "running"

    def remember(self, dag_id: str, run_id: str, config: StudyConfig) -> None:
        """Writes the file of a study that starts."""
        self._folder.mkdir(parents=True, exist_ok=True)
        data = {"dag_id": dag_id, "run_id": run_id, "config": config.to_dict()}
        write_atomically(self._file(dag_id, run_id), json.dumps(data))

    def forget(self, dag_id: str, run_id: str) -> None:
        """Deletes the file of a study that has ended."""
        self._file(dag_id, run_id).unlink(missing_ok=True)

    def studies(self) -> dict[str, StudyConfig]:
        """The running studies, by DAG id."""
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
