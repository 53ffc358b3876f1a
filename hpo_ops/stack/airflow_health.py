"""Which of Airflow's parts are healthy, as its api-server sees them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import httpx

from hpo_ops.stack.stack_parts import Part

_SECTIONS = {
    Part.SCHEDULER: "scheduler",
    Part.DAG_PROCESSOR: "dag_processor",
    Part.TRIGGERER: "triggerer",
}


def find_healthy(url: str, *, since: Mapping[Part, float]) -> set[Part]:
    """Asks the api-server which parts are healthy.

    Args:
        url: Where the api-server listens.
        since: When each part was started, in seconds since 1970. An older heartbeat is from the
            process before it, which Airflow believes in for half a minute.
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
    """Says whether the api-server serves the gateway: that of Airflow alone runs without it.

    The gateway answers nobody without a token; in its absence Airflow answers with its UI.
    """
    try:
        answer = httpx.get(f"{url}/hpo/api/v1/docs", timeout=5.0, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.UNAUTHORIZED
