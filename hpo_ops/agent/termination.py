"""When to send SIGTERM, and then SIGKILL, to a training that has been asked to leave."""

from __future__ import annotations

import signal

from hpo_ops.protocol import Action, Control

KILL_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL for a training that did not leave when it was asked to."""


class Termination:
    """Decides by the clock which signal a training gets. Sends nothing itself.

    After a requested action the training has its grace period to leave by itself; then SIGTERM is
    due, and SIGKILL somewhat later. After a cancellation SIGTERM is due at once, and SIGKILL after
    the grace period. SIGTERM is due once. From then on nothing but SIGKILL is due, at each call.

    Args:
        grace_seconds: Time to save and leave.
        kill_seconds: Time between SIGTERM and SIGKILL after a requested action.
    """

    def __init__(self, *, grace_seconds: float, kill_seconds: float = KILL_SECONDS) -> None:
        self._grace_seconds = grace_seconds
        self._kill_seconds = kill_seconds
        self._terminate_at: float | None = None
        self._kill_at: float | None = None

    def due(
        self, control: Control, now: float, *, is_cancelled: bool = False
    ) -> signal.Signals | None:
        """The signal to send now; None if none is due.

        Args:
            control: The action that is requested of the training now.
            now: Monotonic time in seconds.
            is_cancelled: Whether the training is to leave whatever is requested of it.
        """
        if self._kill_at is not None:
            return signal.SIGKILL if now >= self._kill_at else None
        if is_cancelled:
            self._kill_at = now + self._grace_seconds
            return signal.SIGTERM
        if control.action is Action.CONTINUE:
            self._terminate_at = None
            return None
        if self._terminate_at is None:
            self._terminate_at = now + self._grace_seconds
            return None
        if now < self._terminate_at:
            return None
        self._kill_at = now + self._kill_seconds
        return signal.SIGTERM
