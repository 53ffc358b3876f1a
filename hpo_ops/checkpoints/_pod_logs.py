"""Stores the logs of pods' containers in the object store, where the logs outlive the pods.

A segment is one uninterrupted execution of a trial.
"""

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
        study: The study's key, which is the path of the study's folder in the store.
    """

    def __init__(self, store: Store, study: str) -> None:
        self._store = store
        self._base = f"{study}/logs"

    def write(self, ref: LogRef, part: int, text: bytes) -> None:
        """Writes one part of a log, and replaces the part if it exists already."""
        obstore.put(self._store, f"{self._path(ref)}/{part:06}.log", text)

    def read(self, ref: LogRef, *, start: int = 0) -> Iterator[bytes]:
        """Yields the parts of a log in order, without the first `start` parts."""
        for key in sorted(item["path"] for item in self._items(self._path(ref)))[start:]:
            yield bytes(obstore.get(self._store, key).bytes())

    def all(self, trial: int | None = None) -> list[LogRef]:
        """Returns the sorted refs of the logs of a trial, or of all trials if `trial` is None."""
        return sorted(self.parts(trial))

    def parts(self, trial: int | None = None) -> dict[LogRef, int]:
        """Returns the number of parts of each log of a trial, or of all trials if `trial` is None.

        The keys of the mapping are in the order in which the logs were begun.
        """
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
