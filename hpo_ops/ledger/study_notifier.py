"""Word of what happened in a study, for those who wait for it in the same process."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class StudyNotifier:
    """Wakes coroutines that wait for news of a study; told from any thread.

    Another process may have news too: who waits does so for a limited time, and then looks.
    """

    def __init__(self) -> None:
        self._waiting: defaultdict[int, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]]
        self._waiting = defaultdict(list)

    @contextmanager
    def expected(self, study_id: int) -> Iterator[asyncio.Event]:
        """An event that is set at the next news of a study."""
        entry = asyncio.get_running_loop(), asyncio.Event()
        self._waiting[study_id].append(entry)
        try:
            yield entry[1]
        finally:
            self._waiting[study_id].remove(entry)
            if not self._waiting[study_id]:
                del self._waiting[study_id]

    def tell(self, study_id: int) -> None:
        """Something happened in a study."""
        for loop, event in tuple(self._waiting.get(study_id, ())):
            loop.call_soon_threadsafe(event.set)
