import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.databases import database, empty_database, postgres, template
from tests.s3 import s3, s3_folder

__all__ = ["database", "empty_database", "postgres", "s3", "s3_folder", "template"]

# Tests run side by side: threads that wait for a core cost more than they bring.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell starts what it puts in the background with SIGINT ignored, and processes that tests
# interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more about the machine than about the code; and a test that has
# passed here passes there, with the same examples.
settings.register_profile(
    "any machine",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")

_HERE = Path(__file__).parent
_REAL = {"checkpoints", "e2e", "k8s", "runners", "stack"}
"""Where tests start real services: `make test-real` looks nowhere else."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start real services are where they are looked for."""
    for item in items:
        room = item.path.relative_to(_HERE).parts[0]
        if item.get_closest_marker("e2e") and room not in _REAL:
            raise pytest.UsageError(f"{item.nodeid} is marked e2e, but not in {sorted(_REAL)}")


class RoomScheduling(LoadScopeScheduling):
    """Tests of one file share a stack, tests on Kubernetes a cluster, of containers an engine."""

    def _split_scope(self, nodeid: str) -> str:
        for folder in ("tests/k8s/", "tests/runners/docker/"):
            if nodeid.startswith(folder):
                return folder
        return nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> RoomScheduling | None:
    return RoomScheduling(config, log) if config.getoption("dist") == "loadfile" else None
