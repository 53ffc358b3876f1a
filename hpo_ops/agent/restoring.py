"""Work that may take long before a training starts, with signs of life in between."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

from hpo_ops.client import GatewayUnreachableError, SegmentGateway

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 3.0
Done = TypeVar("Done")


def with_signs_of_life(work: Callable[[], Done], gateway: SegmentGateway) -> Done:
    """Does the work, while the gateway hears that the segment is alive."""
    future: Future[Done] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001, raised again by result()
            future.set_exception(error)

    Thread(target=run, name="hpo-restore", daemon=True).start()
    while True:
        try:
            return future.result(HEARTBEAT_SECONDS)
        except TimeoutError:
            if future.done():
                raise
            try:
                gateway.report([])
            except GatewayUnreachableError as error:
                logger.warning("the gateway is away: %s", error)
