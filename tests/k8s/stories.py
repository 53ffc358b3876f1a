"""Stories: tests of studies that do not disturb each other, told side by side on one cluster.

Most of a story is waiting: for pods, for a node to be given up. All that were chosen begin
together, a few at a time, and each test waits for the end of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.k8s.lab import PodLab

Story = Callable[[PodLab], None]
AT_ONCE = 5
PARAMETER = "story"


def each(stories: Sequence[Story]) -> pytest.MarkDecorator:
    """A test for each story, by the story's name."""
    return pytest.mark.parametrize(PARAMETER, stories, ids=lambda story: story.__name__)


@contextmanager
def telling(lab: PodLab, items: Sequence[pytest.Item]) -> Iterator[dict[Story, Future[None]]]:
    """Begins the stories of the tests that were chosen."""
    chosen = [
        item.callspec.params[PARAMETER]
        for item in items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and PARAMETER in item.callspec.params
    ]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="story") as pool:
        try:
            yield {story: pool.submit(story, lab) for story in chosen}
        finally:
            pool.shutdown(cancel_futures=True)
