"""Opening the ledger while its database is being started again."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from hpo_ops.gateway import gateway_settings
from hpo_ops.gateway.gateway_settings import open_gateway

ENVIRONMENT = {"HPO_LEDGER_URL": "postgresql://nowhere", "HPO_GATEWAY_SECRET": "s" * 32}


class Database:
    """A database that does not answer the first questions."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    def open(self, url: str) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise OperationalError("", None, Exception(f"{url} does not answer"))
        return object()


@pytest.fixture(autouse=True)
def _no_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_settings, "_set_pools", lambda *_: None)


def test_a_database_that_comes_back_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(refusals=2)
    monkeypatch.setattr(gateway_settings, "Ledger", database)
    open_gateway(ENVIRONMENT, wait_seconds=20)
    assert database.refusals == 0


def test_a_database_that_stays_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_settings, "Ledger", Database(refusals=9))
    with pytest.raises(OperationalError, match="does not answer"):
        open_gateway(ENVIRONMENT)
