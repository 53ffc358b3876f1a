"""What a call made of an input: taken, or refused by an error of the kinds that it may raise."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable

MOST_CPU_SECONDS = 10.0
MOST_MIB = 600


def outcome(call: Callable[[], object], *errors: type[Exception]) -> Counter[str]:
    """Calls, and fails on any other error, a long computation or a large growth of memory."""
    began, size = time.process_time(), _peak_mib()
    try:
        call()
    except errors as error:
        seen = "refused" if str(error) else "refused without a message"
    else:
        seen = "taken"
    assert seen != "refused without a message"
    seconds = time.process_time() - began
    assert seconds < MOST_CPU_SECONDS, f"took {seconds:.0f} CPU-seconds"
    grown = _peak_mib() - size
    assert grown < MOST_MIB, f"took {grown} MiB"
    return Counter({seen: 1})


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
