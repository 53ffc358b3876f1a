"""Which GPUs of the machine a container gets: those that no other container of a trial has.

The engine itself would give every container the first GPUs. The labels of containers say which
GPUs are taken, so nothing has to be cleaned up after a crash.
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
    """The indices of GPUs for a container that is created inside of the ``with`` block.

    Other workers of this user wait meanwhile. An index that the machine does not have is refused
    by the engine: the capacity of the pool must not be more than the number of GPUs.

    Args:
        engine: Where the containers are.
        number: How many GPUs the container needs; 0 waits for nobody.
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
    """The lowest indices that are in no label.

    Args:
        taken: Values of the label `GPU_LABEL`.
        number: How many indices to choose.
    """
    used = {int(index) for label in taken for index in label.split(",") if index.isdecimal()}
    return tuple(islice((index for index in count() if index not in used), number))
