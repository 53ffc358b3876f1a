"""The action that the platform requests of a running training, and the outcome of that action."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpo_ops.protocol._message import Message
from hpo_ops.protocol._segment_result import Outcome


class Action(StrEnum):
    """The possible actions that a decision requests of a trial: continue, pause, stop, resize."""

    CONTINUE = "continue"
    PAUSE = "pause"
    STOP = "stop"
    RESIZE = "resize"

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of a segment that carries out this action; None if the segment continues."""
        return _OUTCOMES.get(self)


_OUTCOMES = {
    Action.PAUSE: Outcome.PAUSED,
    Action.RESIZE: Outcome.PAUSED,
    Action.STOP: Outcome.STOPPED,
}


@dataclass(frozen=True, kw_only=True)
class Control(Message):
    """The requested action and the reason for it, as in the file ``control.json``."""

    action: Action = Action.CONTINUE
    reason: str = ""
