"""The agent's two containers in a pod.

The first container prepares the workspace with `restore` before the training starts; the second
container runs beside the training with `run`.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType

from hpo_ops.agent._agent import POLL_SECONDS, Agent
from hpo_ops.agent._container_training import ContainerTraining
from hpo_ops.agent._log_shipping import LogShipper
from hpo_ops.agent.checkpoint_restore import (
    for_training,
    restore_checkpoint,
    with_heartbeats,
)
from hpo_ops.agent.store_credentials import SESSION_VARIABLE, SessionCredentials
from hpo_ops.checkpoints import Checkpoints, Logs, Store, fetch_code, open_store
from hpo_ops.client import SegmentClient
from hpo_ops.protocol import (
    AGENT_DIRECTORY_VARIABLE,
    SIDECAR_VARIABLE,
    Assignment,
    UnsafeFileError,
    Workspace,
    open_log,
    write_atomically,
)

logger = logging.getLogger(__name__)

TOKEN_VARIABLE = "HPO_TOKEN"  # noqa: S105, a name
FINISH_SECONDS = 3600.0
"""Time to upload the last checkpoint and deliver the last reports, if the pod got no SIGTERM."""
LEAVE_SECONDS = 45.0
"""Time for the same after SIGTERM, in addition to the training's grace period.

The sum must be less than the pod's grace period.
"""
LOG_SECONDS = 60.0
"""Time to upload the rest of the logs at the end, if the pod got no SIGTERM."""
LEAVE_LOG_SECONDS = 10.0
"""Time to upload the rest of the logs after SIGTERM."""
TOOLS = ("cat", "mkdir", "mkfifo", "mv", "rm", "sleep", "tee")
"""Programs that ``run.sh`` needs besides the shell; all are part of busybox."""
RESTORED_STEP = "restored_step"
"""Name of the file with the restored step, in a folder that the training cannot access."""
RESTORE_LOG, AGENT_LOG = "restore.log", "agent.log"


@dataclass(frozen=True)
class Segment:
    """The segment that runs in this pod, read from the pod's environment variables.

    A segment is one uninterrupted execution of a trial.

    Attributes:
        assignment: The assignment from the gateway, not the copy in the workspace.
        workspace: The directory shared with the training. Its contents are not trusted: the
            training can write any file or link there.
        store: The object store.
        checkpoints: The study's checkpoints in the store.
        logs: The study's logs in the store.
        gateway: Client of the gateway for this segment.
        code: Name of the code archive in the store; None if the study has no code archive.
        is_sidecar: Whether Kubernetes runs the agent as a sidecar, which waits for SIGTERM at
            its end.
        credentials: Credentials of the store that the gateway issues; None if the credentials
            come from the pod's environment.
        own_folder: A folder that only the agent's containers mount; None in a pod that an older
            release has started.
    """

    assignment: Assignment
    workspace: Workspace
    store: Store
    checkpoints: Checkpoints
    logs: Logs
    gateway: SegmentClient
    code: str | None
    is_sidecar: bool = False
    credentials: SessionCredentials | None = None
    own_folder: Path | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Segment:
        assignment = Assignment.from_json(environment["HPO_ASSIGNMENT"])
        workspace = Workspace.from_environment(environment)
        if workspace is None or assignment.checkpoint_store is None:
            raise ValueError("HPO_DIR or the store is missing")
        gateway = SegmentClient(
            environment["HPO_GATEWAY_URL"], environment[TOKEN_VARIABLE], assignment.segment
        )
        has_session = bool(environment.get(SESSION_VARIABLE))
        credentials = SessionCredentials(gateway) if has_session else None
        store = open_store(assignment.checkpoint_store, provider=credentials)
        key = environment["HPO_STUDY_KEY"]
        return cls(
            assignment=assignment,
            workspace=workspace,
            store=store,
            checkpoints=Checkpoints(store, key, uri=assignment.checkpoint_store),
            logs=Logs(store, key),
            gateway=gateway,
            code=environment.get("HPO_CODE") or None,
            is_sidecar=bool(environment.get(SIDECAR_VARIABLE)),
            credentials=credentials,
            own_folder=_own_folder(environment),
        )

    @property
    def log_folder(self) -> Path:
        """The folder for the logs of the agent's containers."""
        return self.own_folder or self.workspace.root

    def note_restored(self, step: int) -> None:
        """Records which checkpoint was restored, for the container that runs beside the training.

        Args:
            step: The step of the restored checkpoint; 0 if none was restored.
        """
        if self.own_folder is not None:
            write_atomically(self.own_folder / RESTORED_STEP, str(step))

    def restored_step(self) -> int:
        """Returns the step of the restored checkpoint, as recorded by `note_restored`.

        If nothing is recorded, returns the step from which the assignment resumes.
        """
        if self.own_folder is None:
            return self.assignment.from_step
        try:
            return int((self.own_folder / RESTORED_STEP).read_text(encoding="ascii"))
        except FileNotFoundError:
            return self.assignment.from_step

    def log_to(self, name: str) -> None:
        """Directs the agent's log messages to standard output and to a file in the log folder.

        Args:
            name: Name of the log file.
        """
        handlers = [logging.StreamHandler(sys.stdout)]
        problem = None
        try:
            handlers.append(logging.StreamHandler(open_log(self.log_folder / name)))
        except (OSError, UnsafeFileError) as error:
            problem = error
        logging.basicConfig(
            level=logging.INFO, format="%(asctime)s %(message)s", handlers=handlers
        )
        logging.getLogger("httpx").setLevel(logging.WARNING)
        if problem is not None:
            logger.warning("this log is not shipped to the store: %s", problem)


def _own_folder(environment: Mapping[str, str]) -> Path | None:
    folder = environment.get(AGENT_DIRECTORY_VARIABLE)
    return Path(folder) if folder else None


def restore(segment: Segment) -> None:
    """Prepares the workspace before the training starts.

    Downloads the code and the checkpoint, writes the assignment, and copies a shell, with which
    the training is started.
    """
    workspace = segment.workspace
    segment.log_to(RESTORE_LOG)
    if segment.code is not None:
        fetch = partial(fetch_code, segment.store, segment.code, workspace.code)
        with_heartbeats(fetch, segment.gateway)
    assignment = restore_checkpoint(
        segment.assignment, workspace, segment.checkpoints, segment.gateway
    )
    segment.note_restored(assignment.from_step)
    _install_shell(workspace.tools)
    workspace.prepare(assignment)
    _open_to_all(workspace.root)


def _open_to_all(root: Path) -> None:
    """Makes all files of the workspace writable for every user.

    The training and the agent may run as different users.

    Args:
        root: The workspace's directory.
    """
    for _, folders, files, here in os.fwalk(root):
        _open_entry_to_all(".", here)
        for name in (*folders, *files):
            _open_entry_to_all(name, here)


def _open_entry_to_all(name: str, folder: int) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        entry = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return  # a symbolic link has no permissions
        raise
    try:
        now = os.fstat(entry).st_mode & 0o777
        mode = 0o777 if now & 0o100 else 0o666  # a folder, or a program
        # Kubernetes created the root directory, and only the directory's owner may change it.
        if now != mode:
            os.fchmod(entry, mode)
    finally:
        os.close(entry)


def _install_shell(folder: Path) -> None:
    """Copies a static shell (busybox) and the scripts that start the training into a folder.

    The training's image may have no shell.
    """
    folder.mkdir(parents=True, exist_ok=True)
    busybox = shutil.which("busybox")
    if busybox is None:
        raise FileNotFoundError("the agent's image has no busybox (package busybox-static)")
    shutil.copy(busybox, folder / "busybox")
    for script in ("run.sh", "package_install.py"):
        shutil.copyfile(Path(__file__).with_name(script), folder / script)
    for tool in TOOLS:
        (folder / tool).unlink(missing_ok=True)
        (folder / tool).symlink_to("busybox")


def run(segment: Segment) -> None:
    """Runs the agent until the training has ended and the agent has delivered all messages.

    If Kubernetes runs the agent as a sidecar, the agent then waits for SIGTERM.
    """
    segment.log_to(AGENT_LOG)
    workspace = segment.workspace
    # Not read from the workspace, because the training can overwrite the files there.
    assignment = for_training(replace(segment.assignment, from_step=segment.restored_step()))
    agent = Agent(
        workspace,
        assignment,
        segment.gateway,
        upload=partial(segment.checkpoints.upload, assignment.trial),
        finish_seconds=FINISH_SECONDS,
    )

    def leave(_number: int, _frame: FrameType | None) -> None:
        """Sets the agent's deadline when SIGTERM announces that the pod is being terminated.

        A sidecar receives SIGTERM after the training has ended. If the agent is not a sidecar,
        the training receives SIGTERM at the same time, and the deadline includes the training's
        grace period to save a checkpoint.
        """
        saving = 0.0 if segment.is_sidecar else assignment.grace_seconds
        agent.set_deadline(saving + LEAVE_SECONDS)

    signal.signal(signal.SIGTERM, leave)
    training = ContainerTraining(workspace, grace_seconds=assignment.grace_seconds)
    files = {
        "training": workspace.log,
        "agent": segment.log_folder / AGENT_LOG,
        "restore": segment.log_folder / RESTORE_LOG,
        "packages": workspace.packages_log,
    }
    logs = LogShipper(segment.logs, assignment.trial, assignment.segment, files)
    try:
        _accompany(training, agent, logs)
        if segment.credentials is not None:
            segment.credentials.prepare()
        _conclude(training, agent)
    except Exception:
        logger.exception("the agent failed")
        raise
    finally:
        logs.finish(LEAVE_LOG_SECONDS if agent.has_deadline else LOG_SECONDS)
        if training.has_ended:
            _mark_delivered(workspace)
    while segment.is_sidecar and not agent.has_deadline:
        time.sleep(POLL_SECONDS)


def _mark_delivered(workspace: Workspace) -> None:
    try:
        write_atomically(workspace.delivered, "")
    except OSError as error:
        logger.warning("%s cannot be written: %s", workspace.delivered.name, error)


def _accompany(training: ContainerTraining, agent: Agent, logs: LogShipper) -> None:
    # A training that has not started when its pod is terminated will never start.
    while not training.has_ended and (training.has_started or not agent.has_deadline):
        if not agent.pump():
            time.sleep(POLL_SECONDS)
        training.check(agent.control, time.monotonic())
        logs.ship_if_due(time.monotonic())


def _conclude(training: ContainerTraining, agent: Agent) -> None:
    if training.was_killed:
        # Killed by the kernel (out of memory) or by Kubernetes: the task reads the pod's status.
        agent.flush()
        logger.info("the training was killed")
    else:
        result = agent.finish(training.exit_code, was_terminated=training.was_terminated)
        logger.info("the segment %s at step %d: %s", result.outcome, result.step, result.reason)
