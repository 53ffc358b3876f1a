"""A log file that is read while it grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

MAX_LINE_BYTES = 1 << 16


class LogTail:
    """Hands a growing log to a callback, line by line, each once."""

    def __init__(self, path: Path, on_line: Callable[[str], None]) -> None:
        self._stream = path.open("rb")
        self._on_line = on_line
        self._rest = b""

    def follow(self) -> None:
        """Hands over the lines written since the last call; half a line waits."""
        while data := self._stream.read(MAX_LINE_BYTES):
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._on_line(line.decode(errors="replace"))
            if len(self._rest) > MAX_LINE_BYTES:
                self._flush()

    def close(self) -> None:
        """Hands over what is left."""
        self.follow()
        self._flush()
        self._stream.close()

    def _flush(self) -> None:
        if self._rest:
            self._on_line(self._rest.decode(errors="replace"))
            self._rest = b""
