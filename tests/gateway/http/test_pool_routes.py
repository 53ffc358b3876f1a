"""Pools over HTTP: who may see and change what there is to run on."""

from __future__ import annotations

from hpo_ops.client.transport import API
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.tokens import issue_service_token
from tests.gateway.web import SECRET, mounted


def test_a_pool_is_set_by_who_may_act_on_the_platform(services: Gateway) -> None:
    web = mounted(services)
    ann = {"Authorization": "Bearer person ann"}
    task = {"Authorization": f"Bearer {issue_service_token(SECRET)}"}
    refused = web.post(f"{API}/pools/local", params={"capacity": 3}, headers=ann)
    assert refused.status_code == 403
    assert web.post(f"{API}/pools/local", params={"capacity": -1}, headers=task).status_code == 422
    assert web.post(f"{API}/pools/local", params={"capacity": 3}, headers=task).is_success
    web.post(f"{API}/pools/gpu/found", params={"capacity": 8}, headers=task)
    web.post(f"{API}/pools/local/found", params={"capacity": 8}, headers=task)  # it was set
    shown = web.get(f"{API}/pools", headers=ann).json()
    assert [(item["name"], item["capacity"], item["is_fixed"]) for item in shown] == [
        ("gpu", 8, False),
        ("local", 3, True),
    ]
    assert web.get(f"{API}/pools").status_code == 401
