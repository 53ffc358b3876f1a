"""Queries Airflow's api-server for the health of Airflow's services."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import httpx

from hpo_ops.stack._stack_parts import Part

_SECTIONS = {
    Part.SCHEDULER: "scheduler",
    Part.DAG_PROCESSOR: "dag_processor",
    Part.TRIGGERER: "triggerer",
}


def find_healthy(url: str, *, since: Mapping[Part, float]) -> set[Part]:
    """Returns the healthy services of Airflow; an empty set if the api-server does not answer.

    Args:
        url: The api-server's URL.
        since: Unix time at which each service was started. A heartbeat before that time came
            from the service's previous process, which Airflow reports as healthy for another
            half a minute.
    """
    try:
        answer = httpx.get(f"{url}/api/v2/monitor/health", timeout=5.0, trust_env=False)
        answer.raise_for_status()
        content = answer.json()
    except (httpx.HTTPError, ValueError):
        return set()
    healthy = set()
    if content["metadatabase"]["status"] == "healthy" and _has_gateway(url):
        healthy.add(Part.API_SERVER)
    for part, section in _SECTIONS.items():
        state = content.get(section) or {}
        heartbeat = state.get(f"latest_{section}_heartbeat")
        if (
            state.get("status") == "healthy"
            and heartbeat is not None
            and datetime.fromisoformat(heartbeat).timestamp() >= since.get(part, 0.0)
        ):
            healthy.add(part)
    return healthy


def _has_gateway(url: str) -> bool:
    """Returns whether the api-server serves the gateway, the HTTP API of the platform.

    The api-server starts without the gateway if the platform's Airflow plugin fails to load. The
    gateway responds to a request without a token with status 401; if the gateway is missing,
    Airflow's UI responds with another status.
    """
    try:
        answer = httpx.get(f"{url}/hpo/api/v1/docs", timeout=5.0, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.UNAUTHORIZED
