"""Signing keys: rotated while a study runs, retired, and kept apart by purpose."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import jwt
import pytest
from fastapi.testclient import TestClient

from hpo_ops.client import GatewayRefusedError, StudyRequest
from hpo_ops.client.token_signing import (
    KeyRing,
    Purpose,
    SigningKey,
    TaskIdentity,
    TokenKind,
    parse_task_key,
    sign_task_token,
)
from hpo_ops.client.transport import API, RENEWED_TOKEN, Transport
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.tokens import (
    RENEWAL_AGE,
    SEGMENT_TIME,
    BadTokenError,
    issue_segment_token,
    issue_service_token,
    read_token,
)
from hpo_ops.protocol import Report
from tests.gateway.web import SECRET, agent, bearer, gateway, mounted, segment_of
from tests.studies import study_data

TASK = TaskIdentity(dag_id="small", run_id="r", task_id="trial", map_index=0)
OLD, NEW = SECRET, KeyRing.make(SECRET.keys)
RETIRED = KeyRing((NEW.first,))


def started(services: Gateway, keys: KeyRing) -> TestClient:
    """The gateway on the same ledger, started anew with other keys."""
    return mounted(Gateway.on_ledger(services.ledger, keys))


def task_token(keys: KeyRing) -> str:
    """The token of a task whose connection has the task key of a ring."""
    return sign_task_token(parse_task_key(keys.task_key()), TASK)


def test_keys_are_rotated_while_a_study_runs(services: Gateway) -> None:
    before = gateway(started(services, OLD), task_token(OLD))
    request = StudyRequest(config=study_data(), dag_id=TASK.dag_id, run_id=TASK.run_id)
    study = before.start_study(request)
    before.sample(study.id, 0, rounds_left=1)
    turn = before.next_action(TASK.dag_id, TASK.run_id, 0, key="k")
    running = agent(started(services, OLD), turn)
    running.report([Report(step=1, metrics={"accuracy": 0.1})])

    # The gateway has a new key in front; tasks and the agent still use the old one.
    both = started(services, NEW)
    assert gateway(both, task_token(OLD)).verdict(study.id).reason
    assert gateway(both, task_token(NEW)).verdict(study.id).reason
    on = agent(both, turn)
    on.report([Report(step=2, metrics={"accuracy": 0.2})])
    renewed = on._transport._token
    assert isinstance(renewed, str)
    assert renewed != turn.token

    # The old key is gone: what was signed with it is void, what was renewed goes on.
    after = started(services, RETIRED)
    with pytest.raises(GatewayRefusedError, match="not, or no longer, a key of the gateway"):
        gateway(after, task_token(OLD)).verdict(study.id)
    with pytest.raises(GatewayRefusedError, match="not, or no longer, a key of the gateway"):
        agent(after, turn).report([])
    assert gateway(after, task_token(NEW)).verdict(study.id).reason
    later = agent(after, turn)
    later._transport._token = renewed
    later.report([Report(step=3, metrics={"accuracy": 0.3})])
    assert [report.step for report in gateway(after, task_token(NEW)).curve(study.id, 0)] == [
        1,
        2,
        3,
    ]


def test_a_secret_without_an_id_still_verifies_beside_a_ring() -> None:
    plain = KeyRing.of_secret("p" * 32)
    both = KeyRing((*NEW.keys, *plain.keys))
    assert read_token(both, issue_service_token(plain)).kind is TokenKind.SERVICE
    assert read_token(plain, task_token(plain)).dag_id == "small"


def signed(purpose: Purpose, kind: TokenKind, lifetime: timedelta, **claims: Any) -> str:
    key = OLD.first.derive(purpose)
    return key.sign(kind, "someone", lifetime, **{"dag": "small", "run": "r", **claims})


@pytest.mark.parametrize(
    "token",
    [
        signed(Purpose.TASKS, TokenKind.SEGMENT, timedelta(minutes=1)),
        signed(Purpose.TASKS, TokenKind.SERVICE, timedelta(minutes=1)),
        signed(Purpose.SEGMENTS, TokenKind.TASK, timedelta(minutes=1)),
        signed(Purpose.SEGMENTS, TokenKind.SERVICE, timedelta(minutes=1)),
        signed(Purpose.TASKS, TokenKind.TASK, timedelta(days=365)),
        signed(Purpose.TASKS, TokenKind.TRIGGERER, timedelta(days=365)),
        signed(Purpose.SEGMENTS, TokenKind.SEGMENT, timedelta(days=365)),
        signed(Purpose.SERVICE, TokenKind.SERVICE, timedelta(days=365)),
        signed(Purpose.TASKS, TokenKind.TASK, timedelta(minutes=-2)),
        signed(Purpose.TASKS, TokenKind.TASK, timedelta(minutes=1), dag=""),
        signed(Purpose.TASKS, TokenKind.TASK, timedelta(minutes=1), run=7),
    ],
    ids=[
        "a segment by the tasks' key",
        "an operator by the tasks' key",
        "a task by the segments' key",
        "an operator by the segments' key",
        "a task for a year",
        "the triggerer for a year",
        "a segment for a year",
        "an operator for a year",
        "an expired task",
        "no DAG",
        "a run that is no text",
    ],
)
def test_a_key_signs_only_what_it_is_for_and_not_for_long(
    lasting_web: TestClient, token: str
) -> None:
    answer = lasting_web.get(f"{API}/studies", headers=bearer(token))
    assert answer.status_code == 401


def test_a_task_key_does_not_tell_the_key_that_it_comes_from() -> None:
    text = OLD.task_key()
    assert OLD.first.secret not in text
    assert OLD.first.secret not in repr(OLD)
    with pytest.raises(BadTokenError):
        read_token(OLD, sign_task_token(SigningKey(OLD.first.id, OLD.first.secret), TASK))


def test_an_old_token_of_a_running_segment_is_renewed_and_of_an_ended_one_is_not(
    lasting: Gateway, lasting_web: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert RENEWAL_AGE < SEGMENT_TIME
    study = StudyRequest(config=study_data(), dag_id="small", run_id="renewal")
    study_id = lasting.studies.start(study).id
    lasting.rounds.sample(study_id, 0)
    turn = lasting.next_actions.next_action(study_id, 0, "a")
    path, headers = f"{API}/segments/{segment_of(turn)}", bearer(turn.token or "")
    fresh = lasting_web.post(f"{path}/reports", headers=headers, json=[])
    assert RENEWED_TOKEN not in fresh.headers
    monkeypatch.setattr("hpo_ops.gateway.tokens.RENEWAL_AGE", timedelta(seconds=-1))
    old = lasting_web.post(f"{path}/reports", headers=headers, json=[])
    renewed = jwt.decode(old.headers[RENEWED_TOKEN], options={"verify_signature": False})
    assert (renewed["kind"], renewed["sub"]) == ("segment", segment_of(turn))
    elsewhere = lasting_web.get(f"{API}/studies", headers=headers)
    assert elsewhere.status_code == 403
    assert RENEWED_TOKEN not in elsewhere.headers
    body = {"result": {"outcome": "stopped", "step": 0, "reason": "told to"}}
    assert lasting_web.post(f"{path}/result", headers=headers, json=body).is_success
    ended = lasting_web.post(f"{path}/reports", headers=headers, json=[])
    assert ended.status_code == 410
    assert RENEWED_TOKEN not in ended.headers


def test_segment_tokens_name_the_key_that_signed_them() -> None:
    token = issue_segment_token(NEW, "s")
    assert jwt.get_unverified_header(token)["kid"] == NEW.first.id
    assert Transport("http://gateway", token)._token == token
