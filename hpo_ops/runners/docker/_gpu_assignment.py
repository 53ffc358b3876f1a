"""Selects GPUs of the machine that no other trial's container uses.

The engine itself would give every container the first GPUs. The GPUs in use are read from the
labels of the existing containers, so no record needs to be cleaned up after a crash.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path

from hpo_ops.runners.docker._container_spec import GPU_LABEL
from hpo_ops.runners.docker._engine_api import DockerEngine


@contextmanager
def free_gpus(engine: DockerEngine, number: int) -> Iterator[tuple[int, ...]]:
    """Yields the indices of free GPUs for a container that the ``with`` block creates.

    Other workers of this user wait until the block ends. The number of GPUs of the machine is not
    checked: the engine refuses an index that does not exist, so the capacity of the pool must not
    exceed the number of GPUs.

    Args:
        engine: The Docker Engine whose containers use the GPUs.
        number: How many GPUs the container needs; with 0, no lock is taken.
    """
    if not number:
        yield ()
        return
    path = Path(tempfile.gettempdir()) / f"hpo-docker-gpus-{os.getuid()}.lock"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        taken = (item.labels[GPU_LABEL] for item in engine.list_containers({GPU_LABEL: None}))
        yield choose_gpus(taken, number)
    finally:
        os.close(descriptor)


def choose_gpus(taken: Iterable[str], number: int) -> tuple[int, ...]:
    """Returns the lowest GPU indices that are not in use.

    Args:
        taken: Values of the label `GPU_LABEL` of all containers: indices separated by commas.
        number: How many indices to return.
    """
    used = {int(index) for label in taken for index in label.split(",") if index.isdecimal()}
    return tuple(islice((index for index in count() if index not in used), number))
