"""In-process notifications, which wake requests that wait for a change of a study."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class StudyNotifier:
    """Wakes coroutines that wait for a change of a study; `tell` may be called from any thread.

    Changes that other processes commit cause no notification, so that a coroutine must wait with a
    timeout and then read the ledger.
    """

    def __init__(self) -> None:
        self._waiting: defaultdict[int, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]]
        self._waiting = defaultdict(list)

    @contextmanager
    def expected(self, study_id: int) -> Iterator[asyncio.Event]:
        """Yields an asyncio event to wait for; the next call of `tell` for the study sets it."""
        entry = asyncio.get_running_loop(), asyncio.Event()
        self._waiting[study_id].append(entry)
        try:
            yield entry[1]
        finally:
            self._waiting[study_id].remove(entry)
            if not self._waiting[study_id]:
                del self._waiting[study_id]

    def tell(self, study_id: int) -> None:
        """Notifies all coroutines that wait for a change of a study."""
        for loop, event in tuple(self._waiting.get(study_id, ())):
            loop.call_soon_threadsafe(event.set)
