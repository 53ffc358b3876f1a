"""A trial's row in the ledger as the result that the gateway sends to tasks."""

from __future__ import annotations

from dataclasses import asdict

from hpo_ops.client import Served, TrialResult
from hpo_ops.ledger.rows import TrialRow


def trial_result(row: TrialRow) -> TrialResult:
    """The state, the best value and the parameters of a trial, as it was when it was read."""
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
