from __future__ import annotations

from collections.abc import Iterator

import pytest

from hpo_ops.gateway.studies import Studies
from hpo_ops.ledger import Ledger
from hpo_ops.ledger.leases import set_capacity


@pytest.fixture
def studies(database: str) -> Iterator[Studies]:
    ledger = Ledger.open(database)
    with ledger.engine.begin() as connection:
        set_capacity(connection, "local", 100)
    yield Studies(ledger, secret="s" * 32)
    ledger.engine.dispose()
