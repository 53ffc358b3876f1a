from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.runners._log_tail import LogTail


@given(st.lists(st.binary(max_size=2000), max_size=8))
def test_every_line_is_handed_over_once(parts: list[bytes]) -> None:
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.txt")
        path.touch()
        tail = LogTail(path, lines.append)
        for part in parts:
            with path.open("ab") as stream:
                stream.write(part.replace(b"a", b"\n"))
            tail.follow()
        tail.close()
    whole = b"".join(parts).replace(b"a", b"\n")
    expected = [line.decode(errors="replace") for line in whole.split(b"\n")]
    assert lines == (expected if expected[-1] else expected[:-1])


def test_a_line_without_end_is_handed_over_in_parts(tmp_path: Path) -> None:
    lines: list[str] = []
    path = tmp_path / "log.txt"
    path.write_text("x" * 300_000)
    tail = LogTail(path, lines.append)
    tail.follow()
    tail.close()
    assert "".join(lines) == "x" * 300_000
    assert max(map(len, lines)) <= 1 << 17
