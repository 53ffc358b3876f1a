from hypothesis import HealthCheck, settings

from tests.databases import database, postgres

__all__ = ["database", "postgres"]

# How long an example takes says more about the machine than about the code; and a test that has
# passed here passes there, with the same examples.
settings.register_profile(
    "any machine",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")
