from __future__ import annotations

from collections.abc import Iterator

import pytest

from hpo_ops.config import parse_study
from hpo_ops.ledger import Ledger, StudyIdentity, StudyRecord
from tests.studies import study_data


@pytest.fixture
def ledger(database: str) -> Iterator[Ledger]:
    ledger = Ledger.open(database)
    yield ledger
    ledger.engine.dispose()


def start(ledger: Ledger, name: str = "small", run_id: str = "run-1") -> StudyRecord:
    config = parse_study(study_data(name=name), source="test")
    return ledger.start_study(config, identity=StudyIdentity(name, run_id))
