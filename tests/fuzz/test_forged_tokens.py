"""Tokens that were not issued by the gateway: none is taken."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from datetime import timedelta
from typing import Any

import jwt
import pytest
from hypothesis import strategies as st

from hpo_ops.client.token_signing import AUDIENCE, TokenKind, parse_task_key
from hpo_ops.gateway.tokens import BadTokenError, issue_segment_token, read_token
from tests.fuzz.conftest import Fuzz
from tests.fuzz.mutations import damaged, near
from tests.fuzz.outcomes import outcome
from tests.gateway.web import SECRET

CLAIMS = {
    "kind": "service",
    "sub": "tasks",
    "aud": AUDIENCE,
    "iat": int(time.time()),
    "exp": int(time.time()) + 60,
}
HEADER = {"alg": "HS256", "typ": "JWT", "kid": "test"}
NAMES = ("none", "HS512", "RS256", "kid", "jku", "x5u", "crit", "b64", "service", "segment", "exp")


def _part(data: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()


def _bytes_of(token: str) -> list[bytes] | None:
    """The parts of a token without their encoding; None where they are not encoded so."""
    try:
        return [
            base64.urlsafe_b64decode(part.rstrip("=") + "=" * (-len(part.rstrip("=")) % 4))
            for part in token.encode("ascii").decode().split(".")
        ]
    except ValueError:
        return None


def _unsigned(header: Any, claims: Any, signature: bytes) -> str:
    end = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    return f"{_part(header)}.{_part(claims)}.{end}"


def _signed_by_another(claims: dict[str, Any], secret: str) -> str:
    return jwt.encode(claims, secret, algorithm="HS256", headers={"kid": "test"})


def _signed_by_a_task(kind: TokenKind, subject: str, minutes: int) -> str:
    """What somebody can make with the key that Airflow's tasks hold."""
    key = parse_task_key(SECRET.task_key())
    return key.sign(kind, subject, timedelta(minutes=minutes), dag="small", run="manual")


@pytest.mark.fuzz(100)
def test_a_forged_token_is_refused(fuzz: Fuzz[Any]) -> None:
    good = issue_segment_token(SECRET, "s1")

    def check(token: str) -> Counter[str]:
        if _bytes_of(token) == _bytes_of(good):
            return Counter()  # the same token, perhaps with padding that its encoding allows
        seen = outcome(lambda: read_token(SECRET, token), BadTokenError)
        assert seen["taken"] == 0
        return seen

    tokens = st.one_of(
        st.text(max_size=60),
        damaged([good.encode()], tokens=[b".", b"..", b"=", b"\x00"]).map(
            lambda text: text.decode("utf-8", "replace")
        ),
        st.builds(
            _unsigned,
            near([HEADER], names=NAMES),
            near([CLAIMS], names=NAMES),
            st.binary(max_size=32),
        ),
        st.builds(
            _signed_by_another,
            st.just(CLAIMS),
            st.text(st.characters(exclude_categories=["Cs"]), min_size=32, max_size=40),
        ),
        st.builds(
            _signed_by_a_task,
            st.sampled_from([TokenKind.SEGMENT, TokenKind.SERVICE]),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
            st.integers(0, 10),
        ),
        st.builds(_signed_by_a_task, st.just(TokenKind.TASK), st.just("x"), st.integers(7, 9999)),
    )
    fuzz(tokens, check)
