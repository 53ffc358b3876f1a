from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from hpo_ops.agent.store_credentials import PATIENCE_SECONDS, SessionCredentials
from hpo_ops.client import GatewayRefusedError, GatewayUnreachableError
from hpo_ops.client.store_session import StoreSession

HOUR = timedelta(hours=1)


class Gateway:
    """Hands out numbered sessions; the time is its own, and passes only by waiting."""

    def __init__(self) -> None:
        self.made = 0
        self.seconds = 0.0
        self.fail: Callable[[], None] = lambda: None

    def store_session(self) -> StoreSession:
        self.fail()
        self.made += 1
        return StoreSession(
            access_key_id=f"key {self.made}",
            secret_access_key="secret",  # noqa: S106
            session_token="token",  # noqa: S106
            expires_at=(self.now() + HOUR).isoformat(),
        )

    def now(self) -> datetime:
        return datetime(2026, 11, 18, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    def raises(self, error: Exception, *, until: float = float("inf")) -> None:
        def fail() -> None:
            if self.seconds < until:
                raise error

        self.fail = fail


def credentials(gateway: Gateway) -> SessionCredentials:
    return SessionCredentials(
        gateway, now=gateway.now, clock=lambda: gateway.seconds, wait=gateway.wait
    )


def test_each_question_of_the_store_s_client_gets_new_credentials() -> None:
    gateway = Gateway()
    ask = credentials(gateway)

    assert [ask()["access_key_id"], ask()["access_key_id"]] == ["key 1", "key 2"]
    assert ask()["expires_at"] == gateway.now() + HOUR


def test_a_gateway_that_restarts_is_waited_for() -> None:
    gateway = Gateway()
    gateway.raises(GatewayUnreachableError("away"), until=30)

    assert credentials(gateway)()["access_key_id"] == "key 1"
    assert 30 <= gateway.seconds < 40


def test_a_gateway_that_stays_away_fails_the_operation() -> None:
    gateway = Gateway()
    gateway.raises(GatewayUnreachableError("away"))

    with pytest.raises(GatewayUnreachableError):
        credentials(gateway)()
    assert gateway.seconds <= PATIENCE_SECONDS


@pytest.mark.parametrize("error", [GatewayUnreachableError("away"), GatewayRefusedError("over")])
def test_the_last_credentials_serve_until_they_expire(error: Exception) -> None:
    gateway = Gateway()
    ask = credentials(gateway)
    ask()
    gateway.raises(error)

    gateway.seconds = 3599
    assert ask()["access_key_id"] == "key 1"
    gateway.seconds = 3601
    with pytest.raises(type(error)):
        ask()


def test_a_refusal_is_final() -> None:
    gateway = Gateway()
    gateway.raises(GatewayRefusedError("segment 1 is over"))

    with pytest.raises(GatewayRefusedError):
        credentials(gateway)()
    assert gateway.seconds == 0


def test_a_segment_without_a_checkpoint_has_credentials_for_its_log() -> None:
    gateway = Gateway()
    ask = credentials(gateway)
    ask.prepare()
    gateway.raises(GatewayRefusedError("the segment is over"))
    ask.prepare()

    assert ask()["access_key_id"] == "key 1"


def test_a_gateway_without_credentials_does_not_keep_a_segment_from_its_end() -> None:
    gateway = Gateway()
    gateway.raises(LookupError("this gateway hands out no credentials of the store"))

    credentials(gateway).prepare()

    assert gateway.made == 0
