"""Converts a trial's row of the ledger into the result message that the gateway sends to tasks."""

from __future__ import annotations

from dataclasses import asdict

from hpo_ops.client import Served, TrialResult
from hpo_ops.ledger.rows import TrialRow


def trial_result(row: TrialRow) -> TrialResult:
    """Returns the result message of a trial with its state, best value and parameters."""
    return TrialResult(
        trial=row.number,
        state=row.state,
        reason=row.reason,
        step=row.step,
        value=row.value,
        best_step=row.best_step,
        params=dict(row.params or {}),
        served=None if row.served is None else Served(**asdict(row.served)),
    )
