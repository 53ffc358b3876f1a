"""The workspace: the directory that a training and its agent share, and its file names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from hpo_ops.protocol._assignment import Assignment
from hpo_ops.protocol._control import Control
from hpo_ops.protocol._message import ProtocolError
from hpo_ops.protocol._report import Report
from hpo_ops.protocol._safe_files import Folder, UnsafeFileError, open_regular, write_atomically
from hpo_ops.protocol.field_checks import MAX_STEP

DIRECTORY_VARIABLE = "HPO_DIR"
AGENT_DIRECTORY_VARIABLE = "HPO_AGENT_DIR"
"""Environment variable with the path of a folder that, in a pod, is mounted only in the agent's
containers, for files that the training must not be able to change."""
SIDECAR_VARIABLE = "HPO_AGENT_IS_SIDECAR"
"""Environment variable that is set in pods whose agent is a native sidecar container. Kubernetes
restarts a sidecar when it exits, and terminates it only when the training's container has ended.
Therefore the training's container waits until the agent has delivered everything."""
MARKER = "COMPLETE"
"""Name of the empty file that is written last and marks a checkpoint folder as complete."""


class Workspace:
    """The directory that a training and its agent share, with the paths of all files in it.

    ``run.sh`` and ``package_install.py`` run in images without this package, and therefore repeat
    some of the file names; a test checks that the names agree.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.assignment = root / "assignment.json"
        self.reports = root / "reports.jsonl"
        self.control = root / "control.json"
        self.software = root / "software.json"
        self.result = root / "result.json"
        self.checkpoints = root / "checkpoints"
        self.log = root / "log.txt"
        # In containers only:
        self.code = root / "code"
        self.tools = root / "bin"
        self.packages = root / "packages"
        self.packages_log = root / "packages.log"
        self.alive = root / "alive"
        """A named pipe that stays open as long as the training's container runs."""
        self.started = root / "started"
        self.exit_code = root / "exit_code"
        self.signal = root / "signal"
        """Contains the signal that the agent requests to be sent to the training."""
        self.terminated = root / "terminated"
        """Exists once Kubernetes has sent SIGTERM to the training's container."""
        self.delivered = root / "delivered"
        """Exists once the agent has delivered all reports and checkpoints of an ended training."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Workspace | None:
        """Returns the workspace at the path in ``HPO_DIR``, or None if the variable is not set."""
        root = environment.get(DIRECTORY_VARIABLE)
        return cls(Path(root)) if root else None

    def prepare(self, assignment: Assignment) -> None:
        """Creates the directory, its checkpoint folder and an empty report file.

        The assignment is written last, so that the other files exist once it can be read.
        """
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        self.reports.touch()
        write_atomically(self.assignment, assignment.to_json())

    def checkpoint(self, step: int) -> Path:
        """Returns the path of the folder in which the checkpoint at a step is saved."""
        return self.checkpoints / str(step)

    def complete_steps(self) -> list[int]:
        """Returns the steps with a complete checkpoint in the workspace, in ascending order.

        Raises:
            UnsafeFileError: The checkpoints folder is a link, or not a folder.
        """
        try:
            checkpoints = Folder.open(self.checkpoints)
        except FileNotFoundError:
            return []
        with checkpoints:
            return sorted(
                int(name)
                for name in checkpoints.names()
                if name.isdecimal()
                and int(name) <= MAX_STEP
                and checkpoints.has_file(f"{name}/{MARKER}")
            )

    def open_checkpoint(self, step: int) -> Folder:
        """Opens the folder of the checkpoint at a step, without following links.

        Raises:
            UnsafeFileError: The checkpoint's folder, or the folder of all checkpoints, is a link
                or not a folder.
            OSError: A folder cannot be opened.
        """
        with Folder.open(self.checkpoints) as checkpoints:
            return checkpoints.folder(str(step))

    def remove_checkpoint(self, step: int) -> None:
        """Deletes the checkpoint at a step, without following links.

        Raises:
            UnsafeFileError: The folder of all checkpoints is a link, or not a folder.
            OSError: The folder of all checkpoints cannot be opened.
        """
        with Folder.open(self.checkpoints) as checkpoints:
            checkpoints.remove_folder(str(step))


class ReportReader:
    """Reads a growing ``reports.jsonl`` incrementally: only complete lines, and each line once."""

    MAX_LINE_BYTES = 1 << 20

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> Iterator[Report]:
        """Yields the reports that were appended to the file since the last call.

        Raises:
            ProtocolError: A line is not a valid report or is too long, or the file is a link or
                not a regular file.
        """
        try:
            size = self._path.lstat().st_size
        except FileNotFoundError:
            return
        if size <= self._offset:
            return
        try:
            opened = open_regular(self._path)
        except UnsafeFileError as error:
            raise ProtocolError(str(error)) from error
        with opened as stream:
            stream.seek(self._offset)
            while line := stream.readline(self.MAX_LINE_BYTES + 1):
                if len(line) > self.MAX_LINE_BYTES:
                    raise ProtocolError(
                        f"{self._path.name}: a line of more than {self.MAX_LINE_BYTES} bytes"
                    )
                if not line.endswith(b"\n"):
                    return  # still being written
                self._offset += len(line)
                if line.strip():
                    yield Report.from_json(line)


def read_control(path: Path) -> Control:
    """Reads the requested action from ``control.json``; returns continue if there is no file."""
    try:
        return Control.from_json(path.read_bytes())
    except FileNotFoundError:
        return Control()
