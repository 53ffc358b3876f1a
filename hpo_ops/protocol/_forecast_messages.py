"""Messages about learning-curve forecasts: an agent's instructions, and its forecasts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hpo_ops.protocol._message import Message, ProtocolError
from hpo_ops.protocol.field_checks import check_step, is_step, storable_text


@dataclass(frozen=True, kw_only=True)
class ForecastOrder(Message):
    """Instructions to an agent: when to forecast a trial's learning curve, and how.

    Attributes:
        every: Number of steps between two forecasts. A forecast is due at the first report at or
            after each multiple of this number.
        last_step: The last step that a forecast covers.
        is_maximized: Whether a larger value of the objective is better.
        seed: Seed of the trial's forecasts, which each forecast combines with its step.
        predictor: Short name of the predictor, or a user's class as ``module:Class``.
        options: Options of the predictor.
    """

    every: int
    last_step: int
    is_maximized: bool = True
    seed: int = 0
    predictor: str = "projected"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("every", "last_step"):
            value = getattr(self, name)
            if not is_step(value) or value < 1:
                raise ProtocolError(f"{name} is {value!r}, but must be 1 or more")


@dataclass(frozen=True, kw_only=True)
class CurveForecast(Message):
    """A forecast of the rest of a trial's learning curve, made by the trial's agent.

    Attributes:
        step: The last reported step on which the forecast is based.
        steps: Future steps, ascending; empty if no forecast could be computed.
        quantiles: For each future step, the quantiles of the score (larger is better).
        note: Why no forecast could be computed; empty if there is a forecast.
    """

    step: int
    steps: list[int] = field(default_factory=list)
    quantiles: list[list[float]] = field(default_factory=list)
    note: str = ""

    def __post_init__(self) -> None:
        check_step(self.step)
        object.__setattr__(self, "note", storable_text(self.note))
