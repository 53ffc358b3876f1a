"""Reads a log file while it grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

MAX_LINE_BYTES = 1 << 16
MAX_TURN_BYTES = 1 << 20
"""Maximum number of bytes per call of `LogTail.follow`, so that a large log cannot block it."""


class LogTail:
    """Passes each line of a growing log file to a callback exactly once."""

    def __init__(self, path: Path, on_line: Callable[[str], None]) -> None:
        self._stream = path.open("rb")
        self._on_line = on_line
        self._rest = b""

    def follow(self) -> bool:
        """Passes to the callback the complete lines that were written since the last `follow`.

        Returns:
            Whether the file may contain more bytes that have not been read.
        """
        for _ in range(MAX_TURN_BYTES // MAX_LINE_BYTES):
            data = self._stream.read(MAX_LINE_BYTES)
            if not data:
                return False
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._on_line(line.decode(errors="replace"))
            if len(self._rest) > MAX_LINE_BYTES:
                self._flush()
        return True

    def close(self) -> None:
        """Passes the rest of the log, even an unfinished line, to the callback; closes the log."""
        while self.follow():
            pass
        self._flush()
        self._stream.close()

    def _flush(self) -> None:
        if self._rest:
            self._on_line(self._rest.decode(errors="replace"))
            self._rest = b""
