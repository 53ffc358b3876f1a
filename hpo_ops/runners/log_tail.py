"""A log file that is read while it grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

MAX_LINE_BYTES = 1 << 16
MAX_TURN_BYTES = 1 << 20
"""How much is handed over at a time, so that a log that grows fast holds up nothing else."""


class LogTail:
    """Hands a growing log to a callback, line by line, each once."""

    def __init__(self, path: Path, on_line: Callable[[str], None]) -> None:
        self._stream = path.open("rb")
        self._on_line = on_line
        self._rest = b""

    def follow(self) -> bool:
        """Hands over lines written since the last call; half a line waits.

        Returns:
            Whether there may be more.
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
        """Hands over what is left."""
        while self.follow():
            pass
        self._flush()
        self._stream.close()

    def _flush(self) -> None:
        if self._rest:
            self._on_line(self._rest.decode(errors="replace"))
            self._rest = b""
