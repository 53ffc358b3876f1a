"""The action that the platform requests of a running training, and what it leads to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpo_ops.protocol._message import Message
from hpo_ops.protocol._segment_result import Outcome


class Action(StrEnum):
    """What a decision requests of a running trial."""

    CONTINUE = "continue"
    PAUSE = "pause"
    STOP = "stop"
    RESIZE = "resize"

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of a segment that carries out this action; None if it does not end."""
        return _OUTCOMES.get(self)


_OUTCOMES = {
    Action.PAUSE: Outcome.PAUSED,
    Action.RESIZE: Outcome.PAUSED,
    Action.STOP: Outcome.STOPPED,
}


@dataclass(frozen=True, kw_only=True)
class Control(Message):
    """``control.json``: the requested action, and the reason for it."""

    action: Action = Action.CONTINUE
    reason: str = ""
