"""Logs of pods' containers in the object store, where they outlive the pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import obstore

from hpo_ops.checkpoints._object_stores import Store


class LogRef(NamedTuple):
    """Identifies the log of one container of one segment."""

    trial: int
    segment: str
    container: str


class Logs:
    """The logs of one study's pods; each log is stored in numbered parts.

    Args:
        store: The object store.
        study: The study's key: a path in the store.
    """

    def __init__(self, store: Store, study: str) -> None:
        self._store = store
        self._base = f"{study}/logs"

    def write(self, ref: LogRef, part: int, text: bytes) -> None:
        """Writes one part of a log; writing the same part again replaces it."""
        obstore.put(self._store, f"{self._path(ref)}/{part:06}.log", text)

    def read(self, ref: LogRef, *, start: int = 0) -> Iterator[bytes]:
        """Yields the parts of a log in order, without the first `start` ones."""
        for key in sorted(item["path"] for item in self._items(self._path(ref)))[start:]:
            yield bytes(obstore.get(self._store, key).bytes())

    def all(self, trial: int | None = None) -> list[LogRef]:
        """Lists the logs in the store, of all trials or of one."""
        return sorted(self.parts(trial))

    def parts(self, trial: int | None = None) -> dict[LogRef, int]:
        """Returns the number of parts of each log; the log that was begun first comes first."""
        start = self._base if trial is None else f"{self._base}/{trial}"
        counts: dict[LogRef, int] = {}
        for item in sorted(self._items(start), key=lambda item: item["last_modified"]):
            path = item["path"].removeprefix(f"{self._base}/")
            number, segment, container, _ = path.split("/")
            ref = LogRef(int(number), segment, container)
            counts[ref] = counts.get(ref, 0) + 1
        return counts

    def _path(self, ref: LogRef) -> str:
        return f"{self._base}/{ref.trial}/{ref.segment}/{ref.container}"

    def _items(self, prefix: str) -> Iterator[obstore.ObjectMeta]:
        for page in obstore.list(self._store, prefix):
            yield from page
