"""Imported studies in the ledger."""

from __future__ import annotations

import pytest

from hpo_ops.config import parse_study
from hpo_ops.ledger import Ledger, StudyIdentity, StudyState
from hpo_ops.ledger.imported_study import ImportedStudy, ImportedTrial, record_import
from hpo_ops.ledger.learning_curves import read_curves
from hpo_ops.ledger.trial_listing import list_trials
from tests.studies import study_data


def trial(*curve: tuple[int, float], value: float) -> ImportedTrial:
    return ImportedTrial(
        params={"lr": 0.1}, value=value, metrics={"accuracy": value}, curve=curve, reason="past"
    )


@pytest.mark.parametrize(
    ("curve", "best_step"),
    [(((1, 0.5), (2, 0.9), (3, 0.9)), 2), (((1, 0.5), (4, 0.6)), 4)],
)
def test_the_best_step_is_the_first_with_the_value_or_the_last(
    curve: tuple[tuple[int, float], ...], best_step: int
) -> None:
    assert trial(*curve, value=0.9).best_step == best_step


def test_an_import_is_recorded_once_as_an_ended_study(ledger: Ledger) -> None:
    identity = StudyIdentity("small", "import__1")
    study = ImportedStudy(
        config=parse_study(study_data(), source="test"),
        identity=identity,
        owner="ann",
        share=("other",),
        reason="2 trials imported from a file",
        trials=[trial((1, 0.5), (2, 0.9), value=0.9), trial((1, 0.4), value=0.4)],
    )
    for is_new in (True, False):
        with ledger.begin() as connection:
            assert record_import(connection, study) is is_new
    record = ledger.find_run(identity)
    assert (record.state, record.owner, record.share) == (StudyState.ENDED, "ann", ("other",))
    assert record.ended_at is not None
    with ledger.connect() as connection:
        found = list_trials(connection, record.id)
        curves = read_curves(connection, record.id)
    assert [(item.value, item.best_step, item.reason) for item in found] == [
        (0.9, 2, "past"),
        (0.4, 1, "past"),
    ]
    assert curves == {0: {1: 0.5, 2: 0.9}, 1: {1: 0.4}}
