"""Studies that tasks enter over HTTP, as tests of rights need them: whoever triggered them."""

from __future__ import annotations

from typing import Any

import httpx
from fastapi.testclient import TestClient

from hpo_ops.client.transport import API
from tests.gateway.web import task
from tests.studies import study_data

GENERIC = "hpo_study"


def enter(
    web: TestClient,
    dag_id: str,
    run_id: str = "manual",
    *,
    owner: str | None = None,
    request: dict[str, Any] | None = None,
    **changes: Any,
) -> httpx.Response:
    """What `prepare` of a DAG run is answered; its study is called small unless told otherwise."""
    body = {
        "config": study_data(**{"flow": "rolling", "scheduler": "default", **changes}),
        "dag_id": dag_id,
        "run_id": run_id,
        "owner": owner,
        **(request or {}),
    }
    return web.post(f"{API}/studies", headers=task(), json=body)


def entered(web: TestClient, dag_id: str, run_id: str = "manual", **given: Any) -> dict[str, Any]:
    """The study of a DAG run, as its tasks know it."""
    answer = enter(web, dag_id, run_id, **given)
    assert answer.status_code == 200, answer.text
    handle: dict[str, Any] = answer.json()
    return handle
