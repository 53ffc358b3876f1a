"""Agents of other releases with this gateway (decision 23)."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from hpo_ops.client.transport import API
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.protocol import VERSION, VERSION_HEADER
from tests.gateway.web import bearer, begin, segment_of


@pytest.mark.parametrize(
    "result",
    [
        {"outcome": "stopped", "step": 1, "reason": "x"},  # without a cause, as before
        {"outcome": "stopped", "step": 1, "cause": "struck_by_lightning"},
        {"outcome": "stopped", "step": 1, "newer": {"a": 1}},
    ],
)
def test_an_agent_of_another_release_can_end_its_segment(
    lasting: Gateway, lasting_web: TestClient, result: dict[str, Any]
) -> None:
    _, turn = begin(lasting)
    answer = lasting_web.post(
        f"{API}/segments/{segment_of(turn)}/result",
        json={"result": result, "reports": [], "newer": 1},
        headers=bearer(turn.token or ""),
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["cause"] == "unknown"


def test_reports_with_newer_fields_are_accepted(lasting: Gateway, lasting_web: TestClient) -> None:
    _, turn = begin(lasting)
    answer = lasting_web.post(
        f"{API}/segments/{segment_of(turn)}/reports",
        json=[{"step": 1, "metrics": {"accuracy": 0.5}, "newer": 1}],
        headers=bearer(turn.token or ""),
    )
    assert answer.status_code == 200, answer.text


def test_an_agent_of_a_newer_protocol_is_refused_with_a_sentence(
    lasting: Gateway, lasting_web: TestClient
) -> None:
    _, turn = begin(lasting)
    answer = lasting_web.post(
        f"{API}/segments/{segment_of(turn)}/reports",
        json=[],
        headers={**bearer(turn.token or ""), VERSION_HEADER: str(VERSION + 1)},
    )
    assert answer.status_code == 422
    assert f"protocol is {VERSION + 1}, but must be" in answer.json()["detail"]
