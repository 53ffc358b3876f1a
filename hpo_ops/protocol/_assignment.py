"""The assignment of a segment (one uninterrupted execution of a trial): what it is to train."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpo_ops.protocol._checkpoint_messages import SavedCheckpoint
from hpo_ops.protocol._forecast_messages import ForecastOrder
from hpo_ops.protocol._message import Message, ProtocolError
from hpo_ops.protocol._version import VERSION, check_version
from hpo_ops.protocol.field_checks import is_step

ParamValue = bool | int | float | str | None


@dataclass(frozen=True, kw_only=True)
class Assignment(Message):
    """The instructions for a segment, as in the file ``assignment.json``.

    Attributes:
        study: The study's name.
        trial: The trial's number in its study.
        segment: The id of the segment.
        params: The hyperparameters.
        metrics: Names of the study's metrics. A value that is reported without a name belongs to
            the first metric.
        from_step: The step of the checkpoint to resume from; 0 starts from the beginning.
        until_step: The last step to train; None if the training code decides when to end.
        seed: Seed of the trial, the same for all of the trial's segments.
        checkpoint_every: Number of steps between two checkpoints.
        grace_seconds: Seconds to save a checkpoint and exit after a pause, a stop or SIGTERM.
        resources: Resources of this segment, for example ``{"gpu": 1, "cpu": 4}``.
        fold: Number of the cross-validation fold, starting at 0; None if the study has no folds,
            or to train on all data.
        folds: Number of folds; None if the study has no folds.
        forecasts: Which learning-curve forecasts the agent is to compute; None for no forecasts.
        checkpoint_store: URL of the study's checkpoints in the object store, for the agent.
        restore_from: Folder in `checkpoint_store` of the checkpoint to resume from, if the
            checkpoint belongs to another trial.
        saved: Recorded checkpoints from which the agent may resume, newest first; None if the
            gateway is of an older version, which does not send this list.
        deterministic: Whether every step is seeded and torch uses deterministic algorithms.
        protocol: Version of the protocol.
    """

    study: str
    trial: int
    segment: str
    params: dict[str, ParamValue]
    metrics: list[str]
    from_step: int = 0
    until_step: int | None = None
    seed: int = 0
    checkpoint_every: int = 1
    grace_seconds: float = 30.0
    resources: dict[str, float] = field(default_factory=dict)
    fold: int | None = None
    folds: int | None = None
    forecasts: ForecastOrder | None = None
    checkpoint_store: str | None = None
    restore_from: str | None = None
    saved: list[SavedCheckpoint] | None = None
    deterministic: bool = False
    protocol: int = VERSION

    def __post_init__(self) -> None:
        check_version(self.protocol)
        if not self.metrics:
            raise ProtocolError("metrics is empty, but must name one metric or more")
        for name in ("trial", "from_step"):
            if not is_step(getattr(self, name)):
                raise ProtocolError(f"{name} is {getattr(self, name)!r}, but must be 0 or more")
        if self.until_step is not None and not is_step(self.until_step):
            raise ProtocolError(f"until_step is {self.until_step!r}, but must be 0 or more")
        if not is_step(self.checkpoint_every) or self.checkpoint_every < 1:
            raise ProtocolError(
                f"checkpoint_every is {self.checkpoint_every!r}, but must be 1 or more"
            )
