"""Builds the request that creates the container of a segment (one execution of a trial).

The container runs only the training; its agent runs in the Airflow task. Training and agent share
the workspace, a folder of the worker's machine that is mounted in the container.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpo_ops.config import Resources
from hpo_ops.config.pod_sections import amount
from hpo_ops.protocol import DIRECTORY_VARIABLE, Assignment

MANAGED_LABEL = "hpo-ops/managed"
STUDY_LABEL, TRIAL_LABEL, SEGMENT_LABEL = "hpo-ops/study", "hpo-ops/trial", "hpo-ops/segment"
GPU_LABEL = "hpo-ops/gpus"
"""Label with the indices of the GPUs that only this container uses, separated by commas."""

WORKSPACE, CODE = "/hpo", "/hpo-code"
"""Paths in the container at which the workspace and, read-only, the study's code are mounted."""
NOBODY = 65534
"""Id of the user and group of a container if the worker itself runs as root."""
MAX_PROCESSES = 4096
MAX_LOG_SIZE = "64m"
"""Maximum size of the log file in which the engine stores the container's output."""


@dataclass(frozen=True, kw_only=True)
class User:
    """The ids of the user and the group that the process of a container runs as."""

    uid: int
    gid: int

    @classmethod
    def beside(cls, uid: int, gid: int) -> User:
        """Returns the user that trainings run as: the worker's user, or nobody if that is root.

        Args:
            uid: Id of the worker's user.
            gid: Id of the worker's group.
        """
        return cls(uid=uid, gid=gid) if uid else cls(uid=NOBODY, gid=NOBODY)


@dataclass(frozen=True, kw_only=True)
class SegmentContainer:
    """The settings of a segment's container.

    Attributes:
        assignment: The segment to run: parameters, first and last step, seed.
        study: The study's unique key.
        command: The training command.
        image: The image, which contains the command's program and the packages it needs.
        code: The study's code folder on the worker; None if the image contains the code.
        user: The user that the training runs as, who must own the workspace.
        resources: CPU, memory and number of GPUs of the container.
        environment: The study's environment variables; the worker's variables are not passed on.
        gpus: Indices of the GPUs that the container gets.
    """

    assignment: Assignment
    study: str
    command: str
    image: str
    code: Path | None
    user: User
    resources: Resources = field(default_factory=Resources)
    environment: Mapping[str, str] = field(default_factory=dict)
    gpus: Sequence[int] = ()

    @property
    def name(self) -> str:
        """The container's name, for people only: containers are found by their labels."""
        plain = re.sub(r"[^a-zA-Z0-9]+", "-", self.study).strip("-")[:40].strip("-")
        return f"hpo-{plain or 'study'}-{self.assignment.trial}-{self.assignment.segment}"

    @property
    def labels(self) -> dict[str, str]:
        """The labels that name the container's study, trial, segment and GPUs."""
        return {
            **trial_labels(self.study, self.assignment.trial),
            SEGMENT_LABEL: self.assignment.segment,
            **({GPU_LABEL: ",".join(map(str, self.gpus))} if self.gpus else {}),
        }


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """The memory of a segment, and of the next segment if this segment runs out of memory.

    Attributes:
        now: Memory of this segment.
        next: Memory of the next segment; None if the study sets no further amount.
    """

    now: str
    next: str | None


def plan_memory(resources: Resources, *, ooms: int) -> MemoryPlan:
    """Returns the memory of a trial's next segment, and of a retry should that memory run out.

    Args:
        resources: The study's resources: `memory`, and in `memory_on_oom` the memory of retries.
        ooms: How many segments of the trial have run out of memory.
    """
    steps = [resources.memory, *resources.memory_on_oom]
    index = min(ooms, len(steps) - 1)
    return MemoryPlan(now=steps[index], next=steps[index + 1] if index + 1 < len(steps) else None)


def trial_labels(study: str, trial: int) -> dict[str, str]:
    """Returns the labels that all containers of a trial have.

    Args:
        study: The study's key (study names are not unique).
        trial: The trial's number.
    """
    return {MANAGED_LABEL: "true", STUDY_LABEL: study, TRIAL_LABEL: str(trial)}


def build_spec(plan: SegmentContainer, workspace: Path) -> dict[str, object]:
    """Returns the body of the engine's request ``POST /containers/create``.

    The container has no network and no capabilities, and cannot gain privileges. The training can
    write to its workspace, and to ``/tmp`` and ``/dev/shm``, which count as its memory.

    Args:
        plan: The settings of the container.
        workspace: The folder that training and agent share.
    """
    program, *arguments = shlex.split(plan.command)
    environment = {
        "HOME": "/tmp",  # noqa: S108, a path in the container: the user may have no other home
        "PYTHONUNBUFFERED": "1",
        **plan.environment,
        DIRECTORY_VARIABLE: WORKSPACE,
    }
    return {
        "Image": plan.image,
        # An entry point of the image would get the command as its arguments.
        "Entrypoint": [program],
        "Cmd": arguments,
        "Env": [f"{name}={value}" for name, value in environment.items()],
        **({} if plan.code is None else {"WorkingDir": CODE}),
        "User": f"{plan.user.uid}:{plan.user.gid}",
        "Labels": plan.labels,
        "HostConfig": _host_config(plan, workspace),
    }


def _host_config(plan: SegmentContainer, workspace: Path) -> dict[str, object]:
    memory = int(amount(plan.resources.memory))
    return {
        "Mounts": _mounts(plan, workspace),
        "Tmpfs": {"/tmp": "rw,nosuid,nodev,exec,mode=1777"},  # noqa: S108, in the container
        "ShmSize": memory,
        "ReadonlyRootfs": True,
        "NetworkMode": "none",
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "PidsLimit": MAX_PROCESSES,
        "Memory": memory,
        "MemorySwap": memory,  # of memory and swap together: no swap
        "NanoCpus": int(amount(plan.resources.cpu) * 10**9),
        # A process with the number 1 ignores SIGTERM unless it handles it; Docker's init passes
        # the signal on and returns the exit code.
        "Init": True,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "json-file", "Config": {"max-size": MAX_LOG_SIZE}},
        **_gpus(plan.gpus),
    }


def _mounts(plan: SegmentContainer, workspace: Path) -> list[dict[str, object]]:
    mounts: list[dict[str, object]] = [
        {"Type": "bind", "Source": str(workspace.resolve()), "Target": WORKSPACE}
    ]
    if plan.code is not None:
        code = str(plan.code.resolve())
        mounts.append({"Type": "bind", "Source": code, "Target": CODE, "ReadOnly": True})
    return mounts


def _gpus(indices: Sequence[int]) -> dict[str, object]:
    if not indices:
        return {}
    devices = [str(index) for index in indices]
    request = {"Driver": "nvidia", "DeviceIDs": devices, "Capabilities": [["gpu"]]}
    return {"DeviceRequests": [request]}
