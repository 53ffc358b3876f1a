"""Storage of learning-curve forecasts: the ledger stores each trial's newest forecast."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert as upsert

from hpo_ops.ledger._policy_view import EventKind, to_forecast
from hpo_ops.ledger._schema import forecasts
from hpo_ops.ledger._study_transaction import StudyTransaction
from hpo_ops.protocol import CurveForecast


def record_forecast(session: StudyTransaction, trial: int, made: CurveForecast) -> None:
    """Records a forecast of a trial's learning curve, or why no forecast could be computed.

    The forecast replaces the trial's earlier forecast. It is ignored if the recorded forecast was
    made at the same step or at a later step.

    Raises:
        ValueError: The data of `made` does not have the shape of a forecast.
    """
    known = session.connection.execute(
        select(forecasts.c.step).where(
            forecasts.c.study_id == session.record.id, forecasts.c.trial == trial
        )
    ).scalar_one_or_none()
    if known is not None and known >= made.step:
        return
    values = {"step": made.step, "data": made.to_dict()}
    session.connection.execute(
        upsert(forecasts)
        .values(study_id=session.record.id, trial=trial, **values)
        .on_conflict_do_update(index_elements=["study_id", "trial"], set_=values)
    )
    session.history.append(
        EventKind.FORECAST, trial, {"step": made.step, **_summary(session, made)}
    )


def _summary(session: StudyTransaction, made: CurveForecast) -> dict[str, object]:
    """Returns what the history records about a forecast, as plain data.

    This is the median and 90 % interval at the forecast's last step, or why no forecast could be
    computed.
    """
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
