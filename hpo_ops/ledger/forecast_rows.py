"""Forecasts of learning curves in the ledger: the newest of each trial."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert as upsert

from hpo_ops.ledger.policy_view import EventKind, to_forecast
from hpo_ops.ledger.schema import forecasts
from hpo_ops.ledger.study_transaction import StudySession
from hpo_ops.protocol import CurveForecast


def keep_forecast(session: StudySession, trial: int, made: CurveForecast) -> None:
    """Keeps a trial's newest forecast, or that there is none any more.

    Raises:
        ValueError: It does not have the shape of a forecast.
    """
    known = session.connection.execute(
        select(forecasts.c.step).where(
            forecasts.c.study_id == session.record.id, forecasts.c.trial == trial
        )
    ).scalar_one_or_none()
    if known is not None and known >= made.step:
        return  # said before
    values = {"step": made.step, "data": made.to_dict()}
    session.connection.execute(
        upsert(forecasts)
        .values(study_id=session.record.id, trial=trial, **values)
        .on_conflict_do_update(index_elements=["study_id", "trial"], set_=values)
    )
    session.event(EventKind.FORECAST, trial, step=made.step, **_said(session, made))


def _said(session: StudySession, made: CurveForecast) -> dict[str, object]:
    """A forecast as people read it: the value at the last step and its 90 % interval."""
    forecast = to_forecast(made.to_dict())
    if forecast is None:
        return {"note": made.note}
    by_step = forecast.steps[-1]
    to_value = session.view.goal.direction.to_value
    low, high = sorted(map(to_value, forecast.interval(by_step)))
    return {
        "by_step": by_step,
        "value": to_value(forecast.median(by_step)),
        "low": low,
        "high": high,
    }
