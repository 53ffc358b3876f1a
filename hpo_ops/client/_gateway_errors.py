"""Errors of requests to the gateway."""

from __future__ import annotations


class GatewayUnreachableError(ConnectionError):
    """The gateway did not answer, or asked to try again later: the request may be repeated."""


class GatewayFailedError(GatewayUnreachableError):
    """The gateway answered with an internal error: worth a few more attempts."""


class GatewayBusyError(GatewayUnreachableError):
    """The caller sends more requests than the gateway allows.

    Attributes:
        wait_seconds: The pause that the gateway asks for.
    """

    def __init__(self, message: str, *, wait_seconds: float) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class GatewayRefusedError(PermissionError):
    """The gateway does not accept the token: repeating the request does not help.

    For an agent it means that its segment is over for the gateway.
    """
