"""Uploads, downloads and copies single files of an object store; hashes files in transfer."""

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
"""The largest file that is uploaded in one request; a larger file is uploaded in parts."""
COPY_LIMIT_BYTES = 5 << 30
"""The largest object that S3 can copy on the server side."""
CHUNK_BYTES = 8 << 20
THREADS = 4

Item = TypeVar("Item")
Done = TypeVar("Done")


class TooLargeError(ValueError):
    """An object in the store has more bytes than allowed."""


def send(store: Store, folder: Folder, key: str, path: str) -> ManifestFile:
    """Uploads one file of a folder and returns the file's entry for the manifest.

    The file is opened once and read up to its size at that time, so that the entry has the hash
    of the uploaded bytes even if the training writes to the file meanwhile.

    Args:
        store: The object store.
        folder: The local folder.
        key: The object's key in the store.
        path: The file's path in the folder.

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
    """Downloads one object to a new file and returns the file's size and SHA-256 hash.

    Args:
        store: The object store.
        key: The object's key in the store.
        target: The path of the new local file.
        at_most: The largest allowed size in bytes.

    Raises:
        TooLargeError: The object is larger than allowed; no file is written.
        FileNotFoundError: The store has no such object.
        FileExistsError: The target exists already.
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
    """Copies an object inside a store.

    The server copies an object of up to `COPY_LIMIT_BYTES`; a larger object is downloaded and
    uploaded again.

    Args:
        store: The object store.
        source: The key of the object.
        target: The key of the copy.
        size: The object's size in bytes.
    """
    if size <= COPY_LIMIT_BYTES:
        obstore.copy(store, source, target)
    else:
        obstore.put(store, target, obstore.get(store, source).stream(min_chunk_size=CHUNK_BYTES))


def in_parallel(work: Callable[[Item], Done], items: Iterable[Item]) -> list[Done]:
    """Calls a function for each item in up to `THREADS` threads; returns the results in order.

    After the first error, which is raised, the function is not called for further items. The
    threads are daemons, so that a store that hangs cannot prevent the process from exiting.
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
