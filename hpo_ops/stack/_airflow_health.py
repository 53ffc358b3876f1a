"""Asks Airflow's api-server which of Airflow's services are healthy."""

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
    """Returns the healthy services of Airflow; empty if the api-server does not answer.

    Args:
        url: The api-server's URL.
        since: When each service was started, in seconds since 1970. An older heartbeat is from
            the previous process, which Airflow takes for alive for half a minute.
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
    """Tells whether the api-server serves the gateway: it starts without it if the plugin fails.

    The gateway refuses a request without a token; without the gateway, Airflow's UI answers.
    """
    try:
        answer = httpx.get(f"{url}/hpo/api/v1/docs", timeout=5.0, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.UNAUTHORIZED
