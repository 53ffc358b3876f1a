"""Stories: tests of studies that do not disturb each other, told side by side on one cluster.

Most of a story is waiting: for pods, for a node to be given up. All that were chosen begin
together, a few at a time, and each test waits for the end of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest

from tests.k8s.lab import PodLab

Story = Callable[[PodLab], None]
AT_ONCE = 3
PARAMETER = "story"


def each(stories: Sequence[Story]) -> pytest.MarkDecorator:
    """A test for each story, by the story's name."""
    return pytest.mark.parametrize(PARAMETER, stories, ids=lambda story: story.__name__)


def begin(lab: PodLab, tests: Sequence[pytest.Function]) -> dict[Story, Future[None]]:
    """Begins the stories of tests."""
    chosen = [
        test.callspec.params[PARAMETER]
        for test in tests
        if hasattr(test, "callspec") and PARAMETER in test.callspec.params
    ]
    places = threading.Semaphore(AT_ONCE)
    told: dict[Story, Future[None]] = {story: Future() for story in chosen}

    def tell(story: Story) -> None:
        with places:
            try:
                told[story].set_result(story(lab))
            except BaseException as error:  # noqa: BLE001, raised in the story's test
                told[story].set_exception(error)

    for story in chosen:
        # None keeps a run that was interrupted from its end.
        threading.Thread(target=tell, args=(story,), name=story.__name__, daemon=True).start()
    return told
