"""What the containers of trials printed, in the store: readable after the pods are gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import obstore

from hpo_ops.checkpoints.store import Store


class LogRef(NamedTuple):
    """The log of one container of one segment."""

    trial: int
    segment: str
    container: str


class Logs:
    """The logs of one study: written part by part, read as one.

    Args:
        store: Where they are.
        study: The study's key: a path in the store.
    """

    def __init__(self, store: Store, study: str) -> None:
        self._store = store
        self._base = f"{study}/logs"

    def write(self, ref: LogRef, part: int, text: bytes) -> None:
        """Writes a part; the same one again replaces it."""
        obstore.put(self._store, f"{self._path(ref)}/{part:06}.log", text)

    def read(self, ref: LogRef) -> Iterator[bytes]:
        """The parts of a log, in order."""
        for key in sorted(self._keys(self._path(ref))):
            yield bytes(obstore.get(self._store, key).bytes())

    def all(self, trial: int | None = None) -> list[LogRef]:
        """The logs that are there, of all trials or of one."""
        start = self._base if trial is None else f"{self._base}/{trial}"
        found = set()
        for key in self._keys(start):
            number, segment, container, _ = key.removeprefix(f"{self._base}/").split("/")
            found.add(LogRef(int(number), segment, container))
        return sorted(found)

    def _path(self, ref: LogRef) -> str:
        return f"{self._base}/{ref.trial}/{ref.segment}/{ref.container}"

    def _keys(self, prefix: str) -> Iterator[str]:
        for page in obstore.list(self._store, prefix):
            for item in page:
                yield item["path"]
