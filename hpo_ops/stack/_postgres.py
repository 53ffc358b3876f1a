"""Runs the PostgreSQL server of a stack, with one database for Airflow and one for the ledger.

The server listens on a unix socket only, and every connection requires a password. Each database
is owned by its own role, which cannot connect to the other database.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import psutil
import psycopg2
from psycopg2 import sql

from hpo_ops.stack._postgres_programs import PostgresPrograms
from hpo_ops.stack._processes import kill_all
from hpo_ops.stack._stack_parts import Part, PartFailedError
from hpo_ops.stack.stack_files import Layout
from hpo_ops.stack.stack_secrets import Secrets

if TYPE_CHECKING:
    from psycopg2.extensions import connection, cursor

_SUPERUSER = "postgres"
_START_SECONDS = 60.0


class Database(StrEnum):
    """A database of the server; the role that owns a database has the same name."""

    AIRFLOW = "airflow"
    LEDGER = "hpo"


class Postgres:
    """The PostgreSQL server of one stack."""

    def __init__(self, layout: Layout, secrets: Secrets) -> None:
        self._layout = layout
        self._secrets = secrets
        self._folder = layout.postgres.resolve()
        self._programs = PostgresPrograms(self._folder)

    def start(self) -> None:
        """Starts the server and waits until it is ready; creates the databases at the first start.

        Raises:
            PartFailedError: The server did not become ready in time.
        """
        if not self._layout.postgres_marker.exists() and self._folder.exists():
            self.stop()
            shutil.rmtree(self._folder)
        if self.find() is None:
            self._kill_leftovers()
        self._forget_stale_postmaster()
        if not (self._folder / "PG_VERSION").exists():
            self._programs.initialize(
                superuser=_SUPERUSER, password=self._secrets.postgres_password
            )
        self._start_server()
        if not self._layout.postgres_marker.exists():
            self._make_databases()
            self._layout.postgres_marker.touch()

    def stop(self) -> None:
        """Stops the server without waiting for clients; committed data is safe on disk."""
        process = self.find()
        if process is None:
            return
        with contextlib.suppress(subprocess.SubprocessError):
            self._programs.stop()
        remaining = self.find()
        if remaining is not None:
            remaining.kill()

    def kill(self) -> None:
        """Kills all processes of a server that does not answer.

        Committed data is in the write-ahead log, from which the next start recovers.
        """
        main = self.find()
        if main is not None:
            kill_all([main])
        self._kill_leftovers()

    def _kill_leftovers(self) -> None:
        """Kills remaining PostgreSQL processes of this data folder, which block the next start.

        These processes normally end with the main process, unless they hang or are suspended by a
        signal.
        """
        left = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.name() == "postgres" and process.cwd() == str(self._folder):
                    left.append(process)
        kill_all(left)

    def find(self) -> psutil.Process | None:
        """Returns the main process of the server, or None if it does not run."""
        lines = self._postmaster_lines()
        if not lines or not lines[0].strip().isdigit():
            return None
        try:
            process = psutil.Process(int(lines[0]))
            is_this_server = (
                process.name() == "postgres" and str(self._folder) in process.cmdline()
            )
        except psutil.Error:
            return None
        return process if is_this_server else None

    def is_healthy(self) -> bool:
        """Returns whether the server runs and answers a query."""
        if self.find() is None:
            return False
        try:
            with self._connect(Database.AIRFLOW) as commands:
                commands.execute("SELECT 1")
        except psycopg2.Error:
            return False
        return True

    def url(self, database: Database, *, driver: str = "psycopg2") -> str:
        """Returns the SQLAlchemy URL of a database, with its owner's name and password."""
        password = self._password(database)
        host = quote(str(self._socket_folder()), safe="/")
        return f"postgresql+{driver}://{database}:{password}@/{database}?host={host}"

    def migrated_by(self) -> str | None:
        """Returns the Airflow version that last migrated Airflow's database.

        Returns None if the database has never been migrated.
        """
        with self._connect(Database.AIRFLOW) as commands:
            commands.execute(
                "SELECT shobj_description(oid, 'pg_database') FROM pg_database"
                " WHERE datname = current_database()"
            )
            row = commands.fetchone()
        return None if row is None else row[0]

    def set_migrated_by(self, version: str) -> None:
        """Records the Airflow version that migrated Airflow's database, as a comment on it."""
        with self._connect(Database.AIRFLOW) as commands:
            commands.execute("COMMENT ON DATABASE airflow IS %s", (version,))

    def _password(self, database: Database) -> str:
        if database is Database.AIRFLOW:
            return self._secrets.airflow_database_password
        return self._secrets.ledger_database_password

    def _start_server(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready():
            try:
                if self.find() is None:
                    self._programs.start(log=self._layout.log(Part.POSTGRES))
            # A start fails while dying processes still hold the shared memory; it is retried.
            except (subprocess.SubprocessError, OSError) as error:
                if time.monotonic() > deadline:
                    raise self._failure(str(error)) from error
            else:
                if time.monotonic() > deadline:
                    raise self._failure(f"it is not ready after {_START_SECONDS:.0f} s")
            time.sleep(0.2)

    def _is_ready(self) -> bool:
        """Returns whether the server accepts connections, which it does not during recovery."""
        lines = self._postmaster_lines()
        return self.find() is not None and len(lines) > 7 and lines[7].strip() == "ready"

    def _failure(self, why: str) -> PartFailedError:
        return PartFailedError(Part.POSTGRES, why=why, log=self._layout.log(Part.POSTGRES))

    def _postmaster_lines(self) -> list[str]:
        try:
            return (self._folder / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return []

    def _socket_folder(self) -> Path:
        """Returns the folder of the server's unix socket, as recorded in the pid file.

        Returns the data folder if there is no pid file.
        """
        lines = self._postmaster_lines()
        return Path(lines[4].strip()) if len(lines) > 4 and lines[4].strip() else self._folder

    def _forget_stale_postmaster(self) -> None:
        """Removes the pid file if the server does not run.

        Another process may now have the pid in the file, which could prevent the next start.
        """
        if self._postmaster_lines() and self.find() is None:
            (self._folder / "postmaster.pid").unlink(missing_ok=True)

    @contextlib.contextmanager
    def _connect(self, database: Database | None) -> Iterator[cursor]:
        """Yields a cursor in autocommit mode, connected as the owner of a database.

        Args:
            database: The database; None to connect as superuser to the superuser's database.
        """
        user = _SUPERUSER if database is None else str(database)
        password = (
            self._secrets.postgres_password if database is None else self._password(database)
        )
        opened: connection = psycopg2.connect(
            host=str(self._socket_folder()),
            user=user,
            password=password,
            dbname=user,
            connect_timeout=10,
        )
        try:
            opened.autocommit = True
            with opened.cursor() as commands:
                yield commands
        finally:
            opened.close()

    def _make_databases(self) -> None:
        with self._connect(None) as commands:
            for database in Database:
                name = sql.Identifier(database)
                commands.execute(
                    sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                        name, sql.Literal(self._password(database))
                    )
                )
                commands.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, name))
                commands.execute(sql.SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(name))
