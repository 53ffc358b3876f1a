"""The gateway's HTTP client: for tasks and the CLI, and for agents with a token of one segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hpo_ops.client.messages import Ending
from hpo_ops.protocol import Checkpoint, Control, Report, Result


class GatewayUnreachableError(ConnectionError):
    """The gateway did not answer, or not in a way that settles the matter: try again later."""


class GatewayFailedError(GatewayUnreachableError):
    """The gateway answered that something went wrong in it: it may be worth a few tries more."""


class GatewayRefusedError(PermissionError):
    """The gateway does not accept this token (any more): the segment belongs to someone else."""


class SegmentGateway(Protocol):
    """What an agent asks of the gateway, for the one segment that its token names.

    Every call is safe to repeat and raises `GatewayUnreachableError` or `GatewayRefusedError`.
    """

    def report(self, reports: Sequence[Report]) -> Control:
        """Hands in reports (none is a sign of life) and learns what the trial is to do."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Says that a checkpoint is whole in the store."""
        ...

    def finish(self, result: Result, reports: Sequence[Report] = ()) -> Ending:
        """Says how the segment ended, and hands in the last reports with it."""
        ...
