"""Lists and deletes the containers of segments on a Docker Engine, for the reconciler.

A segment is one uninterrupted execution of a trial; the reconciler finds containers that were
left behind by a crash.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hpo_ops.core.runner_resources import (
    ResourceList,
    ResourcesUnavailableError,
    RunnerResource,
)
from hpo_ops.runners.docker._container_spec import MANAGED_LABEL, SEGMENT_LABEL
from hpo_ops.runners.docker._engine_api import (
    DEFAULT_HOST,
    HOST_VARIABLE,
    DockerEngine,
    DockerError,
)

KIND = "container"


@dataclass
class EngineResources:
    """The containers of segments on one Docker Engine.

    Attributes:
        engine: The engine's client.
        host: The engine's address, which is used as the namespace of its containers.
        clock: Returns the time in seconds since the epoch.
        notes: Sentences on containers that could not be listed.
    """

    engine: DockerEngine
    host: str
    clock: Callable[[], float] = time.time
    notes: list[str] = field(default_factory=list)

    def look(self, namespaces: Sequence[str]) -> ResourceList:
        try:
            found = self.engine.list_containers({MANAGED_LABEL: "true", SEGMENT_LABEL: None})
        except DockerError as error:
            self.notes.append(f"the containers of trials cannot be seen: {error}")
            return ResourceList(default_namespace=self.host, training_kind=KIND)
        now = self.clock()
        return ResourceList(
            default_namespace=self.host,
            training_kind=KIND,
            namespaces=frozenset({self.host}),
            resources=[
                RunnerResource(
                    kind=KIND,
                    name=container.name,
                    namespace=self.host,
                    segment=container.labels[SEGMENT_LABEL],
                    seconds=now - container.created_at,
                )
                for container in found
            ],
        )

    def delete(self, kind: str, name: str, namespace: str, *, is_forced: bool) -> None:
        self.engine.remove(name)


def connect(environment: Mapping[str, str] = os.environ) -> EngineResources | None:
    """Connects to the engine that ``DOCKER_HOST`` names, by default to the local engine.

    Returns:
        The engine's containers; None if the engine is the local one and this user cannot access
        its socket, since this worker then cannot have started a container.

    Raises:
        ResourcesUnavailableError: The engine's address is not supported.
    """
    host = environment.get(HOST_VARIABLE) or DEFAULT_HOST
    if host == DEFAULT_HOST and not os.access(host.removeprefix("unix://"), os.R_OK | os.W_OK):
        return None
    try:
        return EngineResources(DockerEngine.from_environment(environment), host)
    except ValueError as error:
        raise ResourcesUnavailableError(str(error)) from error
