from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL

from hpo_ops.client import Turn
from hpo_ops.gateway.studies import Studies
from hpo_ops.ledger import Ledger
from hpo_ops.ledger.leases import set_capacity
from tests.gateway.web import SECRET, begin, mounted


@pytest.fixture
def studies(database: str) -> Iterator[Studies]:
    ledger = Ledger.open(database)
    with ledger.engine.begin() as connection:
        set_capacity(connection, "local", 100)
    yield Studies(ledger, secret="s" * 32)
    ledger.engine.dispose()


@pytest.fixture
def web(studies: Studies) -> TestClient:
    return mounted(studies)


@pytest.fixture(scope="module")
def lasting(postgres: URL) -> Iterator[Studies]:
    """One ledger for all tests that need no fresh one."""
    admin = create_engine(postgres, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text("CREATE DATABASE lasting_gateway"))
    url = postgres.set(database="lasting_gateway")
    ledger = Ledger.open(url.render_as_string(hide_password=False))
    with ledger.engine.begin() as connection:
        set_capacity(connection, "local", 1000)
    yield Studies(ledger, SECRET)
    ledger.engine.dispose()
    with admin.connect() as connection:
        connection.execute(text("DROP DATABASE lasting_gateway WITH (FORCE)"))
    admin.dispose()


@pytest.fixture(scope="module")
def lasting_web(lasting: Studies) -> TestClient:
    return mounted(lasting)


@pytest.fixture(scope="module")
def begun(lasting: Studies) -> tuple[int, Turn]:
    """A study that tests look at and leave as it is."""
    return begin(lasting)
