from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.engine import URL

from hpo_ops.client import NextAction
from hpo_ops.gateway.services.studies import Studies
from hpo_ops.ledger import Ledger
from hpo_ops.ledger.leases import set_capacity
from tests.databases import fresh_database
from tests.gateway.web import SECRET, begin, mounted


@pytest.fixture
def studies(database: str) -> Iterator[Studies]:
    ledger = Ledger.open(database)
    with ledger.engine.begin() as connection:
        set_capacity(connection, "local", 100)
    yield Studies(ledger, SECRET)
    ledger.engine.dispose()


@pytest.fixture
def web(studies: Studies) -> TestClient:
    return mounted(studies)


@pytest.fixture(scope="module")
def lasting(postgres: URL, template: str) -> Iterator[Studies]:
    """One ledger for all tests that need no fresh one."""
    with fresh_database(postgres, template) as address:
        ledger = Ledger.open(address)
        with ledger.engine.begin() as connection:
            set_capacity(connection, "local", 1000)
        yield Studies(ledger, SECRET)
        ledger.engine.dispose()


@pytest.fixture(scope="module")
def lasting_web(lasting: Studies) -> TestClient:
    return mounted(lasting)


@pytest.fixture(scope="module")
def begun(lasting: Studies) -> tuple[int, NextAction]:
    """A study that tests look at and leave as it is."""
    return begin(lasting)
