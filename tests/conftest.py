import os

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
