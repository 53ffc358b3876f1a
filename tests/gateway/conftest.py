from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.engine import URL

from hpo_ops.client import NextAction
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.ledger import Ledger
from hpo_ops.ledger.leases import set_capacity
from tests.databases import fresh_database
from tests.gateway.web import SECRET, begin, mounted


@pytest.fixture
def services(database: str) -> Iterator[Gateway]:
    ledger = Ledger.open(database)
    with ledger.engine.begin() as connection:
        set_capacity(connection, "local", 100)
    yield Gateway.on_ledger(ledger, SECRET)
    ledger.engine.dispose()


@pytest.fixture
def web(services: Gateway) -> TestClient:
    return mounted(services)


@pytest.fixture(scope="module")
def lasting(postgres: URL, template: str) -> Iterator[Gateway]:
    """One ledger for all tests that need no fresh one."""
    with fresh_database(postgres, template) as address:
        ledger = Ledger.open(address)
        with ledger.engine.begin() as connection:
            set_capacity(connection, "local", 1000)
        yield Gateway.on_ledger(ledger, SECRET)
        ledger.engine.dispose()


@pytest.fixture(scope="module")
def lasting_web(lasting: Gateway) -> TestClient:
    return mounted(lasting)


@pytest.fixture(scope="module")
def begun(lasting: Gateway) -> tuple[int, NextAction]:
    """A study that tests look at and leave as it is."""
    return begin(lasting)
