"""A real Docker Engine for the tests in this folder that ask for one."""

from collections.abc import Iterator

import pytest

from hpo_ops.runners.docker._engine_api import DockerEngine
from tests.docker_engine import TestEngine, docker_engine

__all__ = ["docker_engine"]


@pytest.fixture
def engine(docker_engine: TestEngine) -> Iterator[DockerEngine]:
    """A client of the engine; the containers of a test go with it."""
    client = DockerEngine(docker_engine.host)
    yield client
    for container in client.list_containers({}):
        client.remove(container.id)
    client.close()
