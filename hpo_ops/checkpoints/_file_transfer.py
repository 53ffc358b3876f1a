"""Uploads and downloads single files, and hashes them at the same time."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

import obstore

from hpo_ops.checkpoints._object_stores import Store
from hpo_ops.checkpoints.manifest import ManifestFile
from hpo_ops.protocol import Folder

SINGLE_REQUEST_BYTES = 8 << 20
"""Files up to this size are sent in one request."""
COPY_LIMIT_BYTES = 5 << 30
"""The largest object that S3 can copy on the server."""
CHUNK_BYTES = 8 << 20
THREADS = 4

Item = TypeVar("Item")
Done = TypeVar("Done")


class TooLargeError(ValueError):
    """An object in the store has more bytes than allowed."""


def send(store: Store, folder: Folder, key: str, path: str) -> ManifestFile:
    """Uploads one file of a folder and returns its manifest entry.

    The file is opened once, and read up to the size that it had then, so that the hash is that of
    the uploaded bytes even if the training writes to the file meanwhile.

    Raises:
        UnsafeFileError: The path is a link, or not a regular file.
    """
    digest, size = hashlib.sha256(), 0
    with folder.file(path) as stream:
        left = os.fstat(stream.fileno()).st_size
        is_small = left <= SINGLE_REQUEST_BYTES

        def chunks() -> Iterator[bytes]:
            nonlocal size, left
            while chunk := stream.read(min(left, CHUNK_BYTES)):
                digest.update(chunk)
                size += len(chunk)
                left -= len(chunk)
                yield chunk

        if is_small:
            obstore.put(store, key, b"".join(chunks()))
        else:
            obstore.put(store, key, chunks(), chunk_size=CHUNK_BYTES)
    return ManifestFile(path, size, digest.hexdigest())


def receive(store: Store, key: str, target: Path, *, at_most: int) -> tuple[int, str]:
    """Downloads one file and returns its size and hash.

    Raises:
        TooLargeError: The object has more bytes than allowed; nothing is written.
    """
    digest, size = hashlib.sha256(), 0
    target.parent.mkdir(parents=True, exist_ok=True)
    answer = obstore.get(store, key)
    if answer.meta["size"] > at_most:
        raise TooLargeError(f"{key} has {answer.meta['size']} bytes, but may have {at_most}")
    with target.open("xb") as stream:
        if answer.meta["size"]:
            for chunk in answer.stream(min_chunk_size=CHUNK_BYTES):
                data = memoryview(chunk)
                digest.update(data)
                size += stream.write(data)
    return size, digest.hexdigest()


def copy(store: Store, source: str, target: str, size: int) -> None:
    """Copies an object inside a store, on the server if it is not too large for that."""
    if size <= COPY_LIMIT_BYTES:
        obstore.copy(store, source, target)
    else:
        obstore.put(store, target, obstore.get(store, source).stream(min_chunk_size=CHUNK_BYTES))


def in_parallel(work: Callable[[Item], Done], items: Iterable[Item]) -> list[Done]:
    """Calls a function for all items in a few threads, and returns the results in order.

    The first error is raised, and no further items are started. The threads are daemons, so that a
    store that hangs does not keep the process from exiting.
    """
    waiting: SimpleQueue[tuple[int, Item]] = SimpleQueue()
    count = 0
    for count, item in enumerate(items, start=1):
        waiting.put((count, item))
    if count <= 1:
        return [work(item) for _, item in _drain(waiting)]
    finished: SimpleQueue[tuple[int, Done] | Exception] = SimpleQueue()
    has_failed = threading.Event()

    def run() -> None:
        for index, item in _drain(waiting):
            if has_failed.is_set():
                return
            try:
                finished.put((index, work(item)))
            except Exception as error:  # noqa: BLE001, raised again below
                has_failed.set()
                finished.put(error)

    for _ in range(min(THREADS, count)):
        threading.Thread(target=run, name="hpo-transfer", daemon=True).start()
    done: dict[int, Done] = {}
    while len(done) < count:
        answer = finished.get()
        if isinstance(answer, Exception):
            raise answer
        done[answer[0]] = answer[1]
    return [done[index] for index in sorted(done)]


def _drain(queue: SimpleQueue[tuple[int, Item]]) -> Iterator[tuple[int, Item]]:
    while True:
        try:
            yield queue.get_nowait()
        except Empty:
            return
