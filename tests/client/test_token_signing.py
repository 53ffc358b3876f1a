"""Key rings and task keys as they are written down."""

from __future__ import annotations

import jwt
import pytest

from hpo_ops.client.token_signing import (
    KEY_SECONDS,
    KeyRing,
    SigningKey,
    TaskIdentity,
    TaskTokens,
    parse_task_key,
)
from hpo_ops.gateway.gateway_settings import RATE_VARIABLE, read_keys, read_rate

SECRET = "x" * 32


def test_a_ring_is_read_as_it_is_written() -> None:
    ring = KeyRing.make(KeyRing.parse(f"2026-08:{SECRET}").keys)
    assert KeyRing.parse(ring.to_text()) == ring
    assert ring.first.id != "2026-08"
    assert ring.find("2026-08") == SigningKey("2026-08", SECRET)
    assert SECRET not in repr(ring)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "id:secret"),
        (SECRET, "id:secret"),
        (f"a b:{SECRET}", "id:secret"),
        ("a:short", "has 5 characters"),
        (f"a:{SECRET},a:{SECRET}", "must differ"),
        (f"a:{SECRET},", "key 2"),
    ],
)
def test_a_ring_that_cannot_be_used_is_told_without_its_secrets(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        KeyRing.parse(text)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", ["", "a.b.c", SECRET, f"a:{SECRET}", "hpo-task-key:a:"])
def test_a_password_that_is_no_task_key_is_told_with_what_to_do(text: str) -> None:
    with pytest.raises(ValueError, match="`hpo keys task` prints it"):
        parse_task_key(text)


def test_the_gateway_reads_a_ring_and_an_older_secret() -> None:
    keys = read_keys({"HPO_GATEWAY_KEYS": f"new:{SECRET}", "HPO_GATEWAY_SECRET": "o" * 40})
    assert [key.id for key in keys] == ["new", ""]
    assert read_keys({"HPO_GATEWAY_SECRET": "a:b," + SECRET}).first.secret == "a:b," + SECRET
    with pytest.raises(ValueError, match="HPO_GATEWAY_KEYS is missing"):
        read_keys({})
    with pytest.raises(ValueError, match="HPO_GATEWAY_SECRET: a secret has 5"):
        read_keys({"HPO_GATEWAY_SECRET": "short"})


def test_the_rate_is_a_setting() -> None:
    assert read_rate({}) == 100
    assert read_rate({RATE_VARIABLE: "0"}) == 0
    for text in ("-1", "many", "inf", "nan"):
        with pytest.raises(ValueError, match="must be a number, 0 or more"):
            read_rate({RATE_VARIABLE: text})


def test_a_long_task_takes_up_a_new_key() -> None:
    now = 0.0
    keys = [SigningKey("old", SECRET), SigningKey("new", SECRET)]
    identity = TaskIdentity(dag_id="d", run_id="r")
    tokens = TaskTokens(lambda: keys.pop(0), identity, clock=lambda: now)

    def key_id() -> str:
        return str(jwt.get_unverified_header(tokens())["kid"])

    assert key_id() == "old"
    now = KEY_SECONDS
    assert key_id() == "new"
    assert key_id() == "new"
