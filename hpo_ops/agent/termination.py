"""Decides when to send SIGTERM and SIGKILL to a training that was requested to exit."""

from __future__ import annotations

import signal

from hpo_ops.protocol import Action, Control

KILL_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL for a training that did not exit in its grace period."""


class Termination:
    """Decides which signal to send to a training at a given time; the caller sends the signal.

    After a pause or stop was requested, the training has a grace period to exit by itself. Then
    SIGTERM is due, and SIGKILL `kill_seconds` later. After a cancellation, SIGTERM is due at once,
    and SIGKILL after the grace period. SIGTERM is due only once; SIGKILL is due at each later
    call.

    Args:
        grace_seconds: The grace period, in which the training saves a checkpoint and exits.
        kill_seconds: Time between SIGTERM and SIGKILL after a requested pause or stop.
    """

    def __init__(self, *, grace_seconds: float, kill_seconds: float = KILL_SECONDS) -> None:
        self._grace_seconds = grace_seconds
        self._kill_seconds = kill_seconds
        self._terminate_at: float | None = None
        self._kill_at: float | None = None

    def due(
        self, control: Control, now: float, *, is_cancelled: bool = False
    ) -> signal.Signals | None:
        """Returns the signal to send now, or None if no signal is due.

        Args:
            control: The action that is currently requested of the training.
            now: Monotonic time in seconds.
            is_cancelled: Whether the training must exit regardless of the requested action.
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
