"""Starts, finds, checks and stops the services (servers) of a stack."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Collection, Iterable
from importlib.metadata import version

import psutil

from hpo_ops.stack._airflow_environment import airflow_environment, api_server_environment
from hpo_ops.stack._airflow_health import find_healthy
from hpo_ops.stack._free_ports import LOOPBACK
from hpo_ops.stack._object_store import ObjectStore
from hpo_ops.stack._postgres import Database, Postgres
from hpo_ops.stack._processes import (
    STACK_ID,
    STACK_PART,
    ProcessRecord,
    descendants,
    find_marked,
    find_stopped,
    spawn,
    terminate,
)
from hpo_ops.stack._stack_parts import (
    AIRFLOW_PARTS,
    Part,
    PartFailedError,
    Phase,
    Progress,
    StackError,
    Update,
)
from hpo_ops.stack._stack_settings import Settings
from hpo_ops.stack._startup import Startup
from hpo_ops.stack.stack_files import Layout
from hpo_ops.stack.stack_secrets import Secrets

# Services that are stopped together, and the seconds until they are killed. Trials save a
# checkpoint when their task is stopped, and tasks report their end to the api-server, so it stops
# after the scheduler. The object store would wait for idle clients; acknowledged data is safe.
_STOP_ORDER = (
    ((Part.SCHEDULER, Part.TRIGGERER, Part.DAG_PROCESSOR), 15.0),
    ((Part.API_SERVER,), 10.0),
    ((Part.S3,), 3.0),
)
_HUNG_GRACE_SECONDS = 5.0


class Servers:
    """The services of one stack, run with the given settings.

    Args:
        layout: The files of the stack.
        settings: The folders and ports of the stack.
        secrets: The passwords and keys of the stack.
        start_seconds: Maximum seconds from the launch of a service until it is healthy.
        hang_seconds: Seconds after which a running but unhealthy service is replaced.
    """

    def __init__(
        self,
        layout: Layout,
        settings: Settings,
        secrets: Secrets,
        *,
        start_seconds: float,
        hang_seconds: float,
    ) -> None:
        self._layout = layout
        self._settings = settings
        self._secrets = secrets
        self._start_seconds = start_seconds
        self._hang_seconds = hang_seconds
        self.postgres = Postgres(layout, secrets)
        self.object_store = ObjectStore(layout, secrets, port=settings.s3_port)

    def environment(self) -> dict[str, str]:
        """Returns the environment variables of Airflow's services and commands."""
        return airflow_environment(
            self._layout,
            self._settings,
            self._secrets,
            database_url=self.postgres.url(Database.AIRFLOW),
            s3_endpoint=self._settings.s3_endpoint,
        )

    def find(self, part: Part) -> psutil.Process | None:
        """Returns the main process of a service, or None if the service does not run."""
        if part is Part.POSTGRES:
            return self.postgres.find()
        record = ProcessRecord.read(self._layout.pid_file(part))
        return None if record is None else record.find()

    def processes(self) -> list[psutil.Process]:
        """Returns all live processes of the stack, including processes that tasks have started."""
        main = self.postgres.find()
        database = [] if main is None else [main, *descendants(main)]
        return [*find_marked(self._secrets.stack_id), *database]

    def healthy(self, parts: Iterable[Part]) -> set[Part]:
        """Checks the given services, and returns those that are healthy."""
        asked, found = set(parts), set()
        asked -= {part for part in asked if self._is_stopped(part)}
        if Part.POSTGRES in asked and self.postgres.is_healthy():
            found.add(Part.POSTGRES)
        if Part.S3 in asked and self.find(Part.S3) and self.object_store.is_healthy():
            found.add(Part.S3)
        running = {part: process for part in AIRFLOW_PARTS if (process := self.find(part))}
        if asked.intersection(running) and Part.API_SERVER in running:
            # A heartbeat from before a crash of the database does not count: Airflow's services
            # may exit when they lose the database.
            database = self.postgres.find()
            earliest = 0.0 if database is None else database.create_time()
            since = {
                part: max(earliest, process.create_time()) for part, process in running.items()
            }
            found |= find_healthy(self._settings.url, since=since) & running.keys() & asked
        return found

    def _is_stopped(self, part: Part) -> bool:
        """Returns whether the main process of a service is suspended by a signal.

        The last heartbeat of such a service may still be recent.
        """
        main = self.find(part)
        return main is not None and bool(find_stopped([main]))

    def start(self, started: list[Part], progress: Progress) -> None:
        """Starts missing services, replaces unhealthy services, and waits until all are healthy.

        Args:
            started: A list to which each service is added before it is launched, so that the
                caller knows the launched services even if this call fails.
            progress: Called with each progress update.

        Raises:
            PartFailedError: A service did not become healthy. That service was stopped; the other
                services continue to run.
        """
        self._start_postgres(started, progress)
        failures = self._start_spawned([Part.S3], started, progress)
        if any(self.find(part) is None for part in AIRFLOW_PARTS):
            self._migrate(progress)
        failures += self._start_spawned(AIRFLOW_PARTS, started, progress)
        if failures:
            raise failures[0]

    def _start_postgres(self, started: list[Part], progress: Progress) -> None:
        if self._is_postgres_up():
            progress(Update(Part.POSTGRES, Phase.ALREADY_RUNNING))
            return
        is_hung = self.postgres.find() is not None
        progress(Update(Part.POSTGRES, Phase.REPLACING if is_hung else Phase.STARTING))
        started.append(Part.POSTGRES)
        begun = time.monotonic()
        self.end(Part.POSTGRES)
        self.launch(Part.POSTGRES)
        progress(Update(Part.POSTGRES, Phase.READY, time.monotonic() - begun))

    def _is_postgres_up(self) -> bool:
        """Returns whether PostgreSQL answers a query.

        If PostgreSQL runs but does not answer, waits up to `hang_seconds` for an answer.
        """
        deadline = time.monotonic() + self._hang_seconds
        while not (is_up := self.postgres.is_healthy()):
            if self.postgres.find() is None or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        return is_up

    def _migrate(self, progress: Progress) -> None:
        """Migrates Airflow's database unless the installed version of Airflow has already done so.

        Raises:
            PartFailedError: The migration failed.
        """
        current = version("apache-airflow")
        if self.postgres.migrated_by() == current:
            return
        progress(Update(Part.POSTGRES, Phase.MIGRATING))
        begun, log = time.monotonic(), self._layout.migration_log
        record = spawn(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            environment=self._marked(self.environment(), Part.POSTGRES),
            cwd=self._settings.project,
            log=log,
        )
        code = record.wait()
        if code != 0:
            why = f"`airflow db migrate` ended with code {code}"
            raise PartFailedError(Part.POSTGRES, why=why, log=log)
        self.postgres.set_migrated_by(current)
        progress(Update(Part.POSTGRES, Phase.READY, time.monotonic() - begun))

    def _start_spawned(
        self, parts: Collection[Part], started: list[Part], progress: Progress
    ) -> list[PartFailedError]:
        """Starts services other than PostgreSQL; returns an error for each that failed.

        Waits until each service is healthy or has failed.
        """
        startup = Startup(
            self,
            parts,
            started=started,
            progress=progress,
            start_seconds=self._start_seconds,
            hang_seconds=self._hang_seconds,
        )
        return startup.run()

    def launch(self, part: Part) -> None:
        """Starts a service that does not run.

        Waits until PostgreSQL is ready, but does not wait for any other service.
        """
        if part is Part.POSTGRES:
            self.postgres.start()
        else:
            self._launch(part)

    def end(self, part: Part) -> None:
        """Ends all processes of one service, even if it hangs, without an orderly shutdown."""
        if part is Part.POSTGRES:
            self.postgres.kill()
        else:
            terminate(self._tree(part), grace_seconds=_HUNG_GRACE_SECONDS)
            self._layout.pid_file(part).unlink(missing_ok=True)

    def failure(self, part: Part, why: str) -> PartFailedError:
        """Returns the error to raise for a service that did not start."""
        return PartFailedError(part, why=why, log=self._layout.log(part))

    def _launch(self, part: Part) -> None:
        self._end_leftovers(part)
        if part is Part.S3:
            self.object_store.prepare()
        record = spawn(
            self._command(part),
            environment=self._environment_of(part),
            cwd=self._settings.project,
            log=self._layout.log(part),
        )
        record.write(self._layout.pid_file(part))

    def _command(self, part: Part) -> list[str]:
        if part is Part.S3:
            return self.object_store.command()
        # Airflow's log servers listen on every interface; logs are read from the folder instead.
        arguments = {
            Part.API_SERVER: ("--host", LOOPBACK, "--port", str(self._settings.port)),
            Part.SCHEDULER: ("--skip-serve-logs",),
            Part.DAG_PROCESSOR: (),
            Part.TRIGGERER: ("--skip-serve-logs",),
        }
        return [sys.executable, "-m", "airflow", part, *arguments[part]]

    def _environment_of(self, part: Part) -> dict[str, str]:
        environment = self.environment()
        if part is Part.S3:
            environment = {
                name: value
                for name, value in environment.items()
                if not name.startswith(("AIRFLOW_", "HPO_"))
            } | self.object_store.environment()
        if part is Part.API_SERVER:
            url = self.postgres.url(Database.LEDGER)
            environment |= api_server_environment(self._secrets, ledger_url=url)
        return self._marked(environment, part)

    def _marked(self, environment: dict[str, str], part: Part) -> dict[str, str]:
        return environment | {STACK_ID: self._secrets.stack_id, STACK_PART: str(part)}

    def stop(self, parts: Collection[Part], progress: Progress) -> None:
        """Stops the given services, each after the services that need it; PostgreSQL is last."""
        for together, grace_seconds in _STOP_ORDER:
            stopping = [part for part in together if part in parts]
            trees = {part: self._tree(part) for part in stopping}
            begun = time.monotonic()
            for part in stopping:
                progress(Update(part, Phase.STOPPING))
            terminate(
                [process for tree in trees.values() for process in tree],
                grace_seconds=grace_seconds,
            )
            for part in stopping:
                self._end_leftovers(part)
                self._layout.pid_file(part).unlink(missing_ok=True)
                progress(Update(part, Phase.STOPPED, time.monotonic() - begun))
        if Part.POSTGRES in parts:
            begun = time.monotonic()
            progress(Update(Part.POSTGRES, Phase.STOPPING))
            self._end_leftovers(Part.POSTGRES)
            self.postgres.stop()
            progress(Update(Part.POSTGRES, Phase.STOPPED, time.monotonic() - begun))

    def require_nothing_left(self) -> None:
        """Ends the remaining processes of the stack, and checks that none is alive.

        Raises:
            StackError: A process is still alive.
        """
        terminate(find_marked(self._secrets.stack_id), grace_seconds=2.0)
        left = self.processes()
        if left:
            names = ", ".join(f"{process.pid} ({_name(process)})" for process in left)
            raise StackError(f"{self._layout.root}: still running after a stop: {names}")

    def _tree(self, part: Part) -> list[psutil.Process]:
        main = self.find(part)
        tree = [] if main is None else [main, *descendants(main)]
        return list({process.pid: process for process in [*tree, *self._marked_by(part)]}.values())

    def _marked_by(self, part: Part) -> list[psutil.Process]:
        return find_marked(self._secrets.stack_id, part=part)

    def _end_leftovers(self, part: Part) -> None:
        """Ends all processes whose environment has the stack's id and this service's name.

        Such processes may be left over from an earlier run.
        """
        terminate(self._marked_by(part), grace_seconds=2.0)


def _name(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error, subprocess.SubprocessError):
        return process.name()
    return "?"
