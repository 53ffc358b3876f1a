"""A segment as a container: what the Docker Engine is asked for.

The container runs the training and nothing else; the agent is in the Airflow task beside it. They
share the workspace, which is a folder of the worker's machine.
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
"""The indices of the GPUs that a container has to itself, separated by commas."""

WORKSPACE, CODE = "/hpo", "/hpo-code"
"""Where the container has the workspace and, read-only, the study's code."""
NOBODY = 65534
"""The user and group of containers whose worker runs as root."""
MAX_PROCESSES = 4096
MAX_LOG_SIZE = "64m"
"""Of the engine's own copy of the output; the worker reads it while it is written."""


@dataclass(frozen=True, kw_only=True)
class User:
    """The user and the group that a container's process has on the worker's machine."""

    uid: int
    gid: int

    @classmethod
    def beside(cls, uid: int, gid: int) -> User:
        """The user for trainings of a worker: its own, or nobody where it is root."""
        return cls(uid=uid, gid=gid) if uid else cls(uid=NOBODY, gid=NOBODY)


@dataclass(frozen=True, kw_only=True)
class SegmentContainer:
    """What a segment's container is to be.

    Attributes:
        assignment: What the training is told.
        study: Key of the study.
        command: The training command.
        image: The image, which has the command and the packages it needs.
        code: The study's code folder; None where the image has the code.
        user: The user that the training runs as; the workspace must belong to it.
        resources: What the training may use.
        environment: The study's variables; nothing of the worker's environment is passed on.
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
        """A name that people can read; nothing depends on it."""
        plain = re.sub(r"[^a-zA-Z0-9]+", "-", self.study).strip("-")[:40].strip("-")
        return f"hpo-{plain or 'study'}-{self.assignment.trial}-{self.assignment.segment}"

    @property
    def labels(self) -> dict[str, str]:
        """The container's identity."""
        return {
            **trial_labels(self.study, self.assignment.trial),
            SEGMENT_LABEL: self.assignment.segment,
            **({GPU_LABEL: ",".join(map(str, self.gpus))} if self.gpus else {}),
        }


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """The memory of a segment, and of the next one if this one runs out of memory.

    Attributes:
        now: Memory of this segment.
        next: Memory of the next segment; None where the study names no more.
    """

    now: str
    next: str | None


def plan_memory(resources: Resources, *, ooms: int) -> MemoryPlan:
    """The memory for a trial that has run out of memory so many times before."""
    steps = [resources.memory, *resources.memory_on_oom]
    index = min(ooms, len(steps) - 1)
    return MemoryPlan(now=steps[index], next=steps[index + 1] if index + 1 < len(steps) else None)


def trial_labels(study: str, trial: int) -> dict[str, str]:
    """The labels that all containers of a trial have.

    Args:
        study: Key of the study; names alone are not unique.
        trial: The trial's number.
    """
    return {MANAGED_LABEL: "true", STUDY_LABEL: study, TRIAL_LABEL: str(trial)}


def build_spec(plan: SegmentContainer, workspace: Path) -> dict[str, object]:
    """The container as the engine's ``POST /containers/create`` takes it.

    The training has no network, no capabilities and no way to get more rights. It can write to
    its workspace, and to ``/tmp`` and ``/dev/shm``, which count as its memory.

    Args:
        plan: The container.
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
