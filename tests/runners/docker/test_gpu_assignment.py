"""Which GPUs a container gets."""

from __future__ import annotations

import threading
import time

import pytest

from hpo_ops.runners.docker._container_spec import GPU_LABEL
from hpo_ops.runners.docker._engine_api import DockerEngine
from hpo_ops.runners.docker._gpu_assignment import choose_gpus, free_gpus
from tests.docker_engine import IMAGE


@pytest.mark.parametrize(
    ("taken", "number", "chosen"),
    [([], 2, (0, 1)), (["0"], 1, (1,)), (["0,2", "3"], 2, (1, 4)), (["", "x"], 1, (0,))],
)
def test_the_lowest_free_indices_are_chosen(
    taken: list[str], number: int, chosen: tuple[int, ...]
) -> None:
    assert choose_gpus(taken, number) == chosen


@pytest.mark.e2e
def test_two_containers_that_are_created_at_once_get_different_gpus(engine: DockerEngine) -> None:
    chosen: list[tuple[int, ...]] = []

    def create(name: str) -> None:
        with free_gpus(engine, 1) as gpus:
            time.sleep(0.2)
            labels = {GPU_LABEL: ",".join(map(str, gpus))}
            spec = {"Image": IMAGE, "Cmd": ["x"], "Labels": labels}
            engine.create({**spec, "HostConfig": {"NetworkMode": "none"}}, name=name)
            chosen.append(gpus)

    threads = [threading.Thread(target=create, args=(f"gpu-{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(chosen) == [(0,), (1,), (2,)]
