"""Defines the paths of all files of a stack, and writes files that only their owner can read."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hpo_ops.stack._stack_parts import Part


@dataclass(frozen=True)
class Layout:
    """The paths of the files and folders of a stack, below one root folder."""

    root: Path

    @property
    def stack_file(self) -> Path:
        return self.root / "stack.json"

    @property
    def secrets_file(self) -> Path:
        return self.root / "secrets.json"

    @property
    def passwords_file(self) -> Path:
        return self.root / "passwords.json"

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"

    @property
    def supervisor_file(self) -> Path:
        """The pid file of the process that supervises the stack."""
        return self.root / "run" / "supervisor.json"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def postgres_marker(self) -> Path:
        """An empty file that is written once PostgreSQL's databases have been created.

        If the file is missing at a start, the data folder is deleted and created again.
        """
        return self.root / "postgres.ready"

    @property
    def s3(self) -> Path:
        return self.root / "s3"

    @property
    def s3_security(self) -> Path:
        """The folder of the certificates and security settings of the object store."""
        return self.root / "s3-security"

    @property
    def airflow(self) -> Path:
        return self.root / "airflow"

    @property
    def migration_log(self) -> Path:
        return self.root / "logs" / "migration.log"

    def log(self, part: Part) -> Path:
        """Returns the log file of a service.

        PostgreSQL's log is in its data folder, where its system user has write permission.
        """
        if part is Part.POSTGRES:
            return self.postgres / "log"
        return self.root / "logs" / f"{part}.log"

    def pid_file(self, part: Part) -> Path:
        return self.root / "run" / f"{part}.json"

    def make(self) -> None:
        """Creates the folders of the stack if they do not exist."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in ("logs", "run", "airflow", "s3"):
            (self.root / folder).mkdir(mode=0o700, exist_ok=True)


def write_private(path: Path, text: str) -> None:
    """Writes a file atomically; only its owner can read it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
