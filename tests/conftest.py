import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.databases import database, empty_database, postgres, template

__all__ = ["database", "empty_database", "postgres", "template"]

# Tests run side by side: threads that wait for a core cost more than they bring.
os.environ.setdefault("OMP_NUM_THREADS", "1")

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
_REAL = {"checkpoints", "e2e", "k8s", "stack"}
"""Where tests start real services: `make test-real` looks nowhere else."""


@pytest.hookimpl(tryfirst=True)  # xdist looks at the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one file share a stack, and all tests on Kubernetes one cluster (``loadgroup``)."""
    for item in items:
        room = item.path.relative_to(_HERE).parts[0]
        if item.get_closest_marker("e2e") and room not in _REAL:
            raise pytest.UsageError(f"{item.nodeid} is marked e2e, but not in {sorted(_REAL)}")
        item.add_marker(pytest.mark.xdist_group(room if room == "k8s" else str(item.path)))
