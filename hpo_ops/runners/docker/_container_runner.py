"""Runs a segment (one uninterrupted execution of a trial) in a container.

The segment's agent runs outside of the container, in the Airflow task.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hpo_ops.agent.termination import KILL_SECONDS
from hpo_ops.protocol import Cause, Outcome, Provenance, SegmentResult, Workspace
from hpo_ops.runners.docker._container_process import ContainerProcess
from hpo_ops.runners.docker._container_spec import SegmentContainer, User, build_spec, trial_labels
from hpo_ops.runners.docker._engine_api import DockerEngine, DockerError
from hpo_ops.runners.docker._gpu_assignment import free_gpus
from hpo_ops.runners.training_loop import Companion, accompany

logger = logging.getLogger(__name__)


class ContainerRunner:
    """Runs one segment in a container, and removes the container afterwards.

    Before that, it removes containers of earlier segments of the trial that remained on the engine
    because their Airflow task was killed.

    Args:
        engine: The Docker Engine, which must be on this machine, since the workspace is mounted.
        plan: The settings of the container.
        next_memory: Memory of the next attempt if this segment runs out of memory; None if the
            trial then fails.
        on_line: Called with each line of the log while the training runs.
        kill_seconds: Time between SIGTERM and SIGKILL.
    """

    def __init__(
        self,
        engine: DockerEngine,
        plan: SegmentContainer,
        *,
        next_memory: str | None = None,
        on_line: Callable[[str], None] | None = None,
        kill_seconds: float = KILL_SECONDS,
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._next_memory = next_memory
        self._on_line = on_line or (lambda line: logger.info("%s", line))
        self._kill_seconds = kill_seconds
        self._is_cancelled = threading.Event()

    def run(
        self, workspace: Workspace, companion: Companion, *, grace_seconds: float = 30.0
    ) -> SegmentResult:
        self._remove_earlier()
        log = workspace.log.open("ab")
        give_to(workspace.root, self._plan.user)
        with free_gpus(self._engine, int(self._plan.resources.gpu)) as gpus:
            plan = replace(self._plan, gpus=gpus)
            spec = build_spec(plan, workspace.root)
            process = ContainerProcess(self._engine, spec, name=plan.name, log=log)
        exit_code = accompany(
            process,
            companion,
            log=workspace.log,
            on_line=self._on_line,
            is_cancelled=self._is_cancelled.is_set,
            grace_seconds=grace_seconds,
            kill_seconds=self._kill_seconds,
        )
        if not process.is_out_of_memory:
            return companion.finish(exit_code)
        # The agent does not report to the gateway that the platform ended a segment; the caller
        # of this method does.
        result = companion.finish(exit_code, was_terminated=True)
        return self._out_of_memory(result) if result.outcome is Outcome.PREEMPTED else result

    def provenance(self) -> Provenance:
        try:
            digest = self._engine.image_digest(self._plan.image)
        except DockerError as error:
            logger.warning("the digest of the image is not recorded: %s", error)
            return Provenance()
        return Provenance(image_digest=digest)

    def terminate(self) -> None:
        self._is_cancelled.set()

    def _remove_earlier(self) -> None:
        labels = trial_labels(self._plan.study, self._plan.assignment.trial)
        for container in self._engine.list_containers(labels):
            logger.info("removing the container %s of an earlier try", container.name)
            self._engine.remove(container.id)

    def _out_of_memory(self, result: SegmentResult) -> SegmentResult:
        reason = f"out of memory: it needed more than {self._plan.resources.memory}"
        if self._next_memory is not None:
            reason = f"{reason}; the next attempt gets {self._next_memory}"
        return replace(
            result,
            outcome=Outcome.FAILED if self._next_memory is None else Outcome.PREEMPTED,
            cause=Cause.OUT_OF_MEMORY,
            reason=reason,
        )


def give_to(folder: Path, user: User) -> None:
    """Makes a user the owner of a folder and of everything in it.

    Nothing is changed if this process runs as the user; otherwise this process must have the
    rights of root. The function must be called before a training uses the folder.
    """
    if user.uid == os.getuid():
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.uid, user.gid, follow_symlinks=False)
