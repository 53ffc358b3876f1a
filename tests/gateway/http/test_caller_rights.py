"""Studies of a generic DAG belong to who triggered them; what one may not see does not exist."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

from hpo_ops.client.transport import API
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http._caller_rights import Caller
from hpo_ops.protocol import Outcome, Provenance, SegmentResult
from tests.gateway.entering import GENERIC, entered
from tests.gateway.web import agent, bearer, begin, person, segment_of

CHANGES: list[tuple[str, dict[str, Any] | None]] = [
    ("pause", None),
    ("resume", None),
    ("config", {"parallelism": 1}),
    ("stop", None),
    ("leases/free", None),
    ("close", None),
]
"""What people do to studies, and with which body."""


@pytest.mark.parametrize(("who", "status"), [("max", 403), ("mia", 200), ("ops", 200)])
def test_a_study_of_a_generic_dag_is_for_its_owner_and_for_operators(
    web: TestClient, services: Gateway, who: str, status: int
) -> None:
    study = entered(web, GENERIC, owner="mia")
    before = services.ledger.get(study["id"])
    path = f"{API}/studies/{study['id']}"
    for change, body in CHANGES:
        answer = web.post(f"{path}/{change}", headers=person(who), json=body)
        assert answer.status_code == status, change
    assert web.get(path, headers=person(who)).json()["owner"] == "mia"
    after = services.ledger.get(study["id"])
    assert (after == before) is (status == 403)
    part = web.post(f"{API}/reconcile", headers=person(who), json=[]).json()
    assert all(item["may_edit"] is (status == 200) for item in part["studies"])


def test_a_study_that_nobody_triggered_is_for_all_with_the_right_on_its_dag(
    web: TestClient,
) -> None:
    study = entered(web, GENERIC)
    answer = web.post(f"{API}/studies/{study['id']}/stop", headers=person("max"))
    assert answer.status_code == 200


def test_who_triggered_a_study_with_a_dag_of_its_own_does_not_matter(web: TestClient) -> None:
    study = entered(web, "small", owner="bob")
    answer = web.post(f"{API}/studies/{study['id']}/stop", headers=person("ann"))
    assert answer.status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_one_may_not_see_is_answered_like_what_is_not_there(
    lasting_web: TestClient, lasting: Gateway, method: str
) -> None:
    hidden, _ = begin(lasting, "secret")
    absent = hidden + 1_000_000
    end = "" if method == "GET" else "/stop"
    answers = [
        lasting_web.request(method, f"{API}/studies/{study_id}{end}", headers=person("ann"))
        for study_id in (hidden, absent)
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].text.replace(str(hidden), "N") == answers[1].text.replace(str(absent), "N")
    names = [
        lasting_web.get(f"{API}/names/{name}", headers=person("ann"))
        for name in ("secret", "absent")
    ]
    assert [answer.status_code for answer in names] == [404, 404]
    assert names[0].text.replace("secret", "N") == names[1].text.replace("absent", "N")


def test_a_segment_of_another_is_answered_like_one_that_is_not_there(
    lasting_web: TestClient, lasting: Gateway
) -> None:
    _, mine = begin(lasting)
    _, theirs = begin(lasting, "secret")
    for headers in (bearer(mine.token or ""), person("eve")):
        answers = [
            lasting_web.post(f"{API}/segments/{segment}/reports", headers=headers, json=[])
            for segment in (segment_of(theirs), "0" * 32)
        ]
        assert [answer.status_code for answer in answers] == [403, 403]


# -- after a segment's end -------------------------------------------------------------------


def test_after_its_end_a_segments_token_rewrites_nothing_and_reads_nothing(
    lasting_web: TestClient, lasting: Gateway
) -> None:
    _, turn = begin(lasting)
    me, segment = agent(lasting_web, turn), segment_of(turn)
    said = SegmentResult(outcome=Outcome.STOPPED, step=0, reason="told to")
    first = me.finish(said, provenance=Provenance(python="3.11"))
    path, headers = f"{API}/segments/{segment}/result", bearer(turn.token or "")
    forged = {"python": "6.6", "image_digest": "sha256:evil"}
    for other in (
        {"outcome": "completed", "step": 9},
        {**said.to_dict(), "reason": "something else"},
    ):
        body = {"result": other, "provenance": forged}
        answer = lasting_web.post(path, headers=headers, json=body)
        assert answer.status_code == 410
        assert "score" not in answer.json()
    # The first answer may have been lost on its way to the agent.
    body = {"result": said.to_dict(), "provenance": forged}
    again = lasting_web.post(path, headers=headers, json=body)
    assert again.status_code == 200
    assert again.json() == first.to_dict()
    study_id, number = lasting.ledger.study_of_segment(segment)
    with lasting.ledger.study(study_id) as session:
        row = session.segments.find(segment)
        assert row is not None
        assert row.trial == number
        assert row.provenance.python == "3.11"
        assert row.provenance.image_digest is None


# -- tasks whose token is for one DAG run ----------------------------------------------------


def test_a_task_of_one_dag_run_has_nothing_to_do_with_another(lasting: Gateway) -> None:
    mine, other = (lasting.ledger.get(begin(lasting)[0]) for _ in range(2))
    bound, platform = Caller(dag_run=(mine.dag_id, mine.run_id)), Caller()
    for right in (bound.may_read, bound.may_edit):
        assert right(mine)
        assert not right(other)
    assert platform.may_edit(other)
    bound.require_run(mine.dag_id, mine.run_id)
    with pytest.raises(HTTPException):
        bound.require_run(other.dag_id, other.run_id)
    with pytest.raises(HTTPException):
        bound.require_edit_dag("hpo_reconcile")
