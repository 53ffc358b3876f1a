"""Errors that a request to the gateway can raise."""

from __future__ import annotations


class GatewayUnreachableError(ConnectionError):
    """The gateway did not answer, or is temporarily unavailable: the request may be repeated."""


class GatewayFailedError(GatewayUnreachableError):
    """The gateway answered with an internal error: the request may be repeated a few times."""


class GatewayBusyError(GatewayUnreachableError):
    """The caller sends more requests than the gateway allows.

    Attributes:
        wait_seconds: Seconds to wait before the next request, as the gateway's answer demands.
    """

    def __init__(self, message: str, *, wait_seconds: float) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class GatewayRefusedError(PermissionError):
    """The gateway does not accept the request's token: repeating the request does not help.

    An agent concludes from this error that the gateway has closed the agent's segment.
    """
