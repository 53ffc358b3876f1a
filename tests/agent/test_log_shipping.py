from __future__ import annotations

from pathlib import Path

from hpo_ops.agent._log_shipping import SHIP_SECONDS, LogShipper
from hpo_ops.checkpoints import LogRef, Logs, open_store


def test_a_log_arrives_in_parts_and_is_read_as_one(tmp_path: Path) -> None:
    logs = Logs(open_store("memory:///"), "digits/run")
    file = tmp_path / "log.txt"
    shipper = LogShipper(logs, 3, "seg", {"training": file, "agent": tmp_path / "none"})
    shipper.ship()
    file.write_text("one\n")
    shipper.ship()
    shipper.ship()
    with file.open("a") as stream:
        stream.write("two\n")
    shipper.finish(30)
    assert logs.all() == [LogRef(3, "seg", "training")]
    assert logs.all(trial=4) == []
    assert list(logs.read(LogRef(3, "seg", "training"))) == [b"one\n", b"two\n"]


def test_a_store_that_is_away_costs_no_line(tmp_path: Path) -> None:
    away = [True, True]

    class Flaky(Logs):
        def write(self, ref: LogRef, part: int, text: bytes) -> None:
            if away:
                away.pop()
                raise ConnectionResetError("gone")
            super().write(ref, part, text)

    logs = Flaky(open_store("memory:///"), "digits/run")
    file = tmp_path / "log.txt"
    file.write_text("one\n")
    shipper = LogShipper(logs, 0, "seg", {"training": file})
    shipper.ship()
    # The second time is the last one, unless it is tried again.
    shipper.finish(30)
    assert away == []
    assert list(logs.read(LogRef(0, "seg", "training"))) == [b"one\n"]


def test_a_log_is_shipped_now_and_then_only(tmp_path: Path) -> None:
    written: list[bytes] = []

    class Counting(Logs):
        def write(self, ref: LogRef, part: int, text: bytes) -> None:
            written.append(text)

    file = tmp_path / "log.txt"
    file.write_text("one\n")
    shipper = LogShipper(Counting(open_store("memory:///"), "s"), 0, "a", {"training": file})
    shipper.ship_if_due(0.0)
    shipper.ship_if_due(SHIP_SECONDS - 1)
    assert written == []
    shipper.ship_if_due(SHIP_SECONDS)
    shipper.finish(30)
    assert written == [b"one\n"]
