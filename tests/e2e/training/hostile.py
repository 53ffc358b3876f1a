"""Trainings that go wrong, each in its own way: the parameter says how."""

import json
import os
import signal
import time
from pathlib import Path

here = Path(os.environ["HPO_DIR"])
kind = json.loads((here / "assignment.json").read_text())["params"]["kind"]


def report(step: int, text: str = "0.5") -> None:
    with (here / "reports.jsonl").open("a") as stream:
        stream.write(f'{{"step": {step}, "metrics": {{"accuracy": {text}}}}}\n')


def save(step: int, link_to: str | None = None) -> None:
    folder = here / "checkpoints" / str(step)
    folder.mkdir(parents=True)
    (folder / "empty").touch()
    if link_to is not None:
        (folder / "link").symlink_to(link_to)
    (folder / "COMPLETE").touch()


match kind:
    case "nothing reported":
        pass
    case "not a number":
        report(1)
        report(2, "NaN")
        time.sleep(60)
    case "a step back":
        report(2)
        report(1)
        time.sleep(60)
    case "a line of 10 MB":
        report(1, "1" * 10_000_000)
        time.sleep(60)
    case "100,000 reports":
        for step in range(1, 100_001):
            report(step)
    case "an empty checkpoint":
        report(1)
        save(1)
    case "a link out of the checkpoint":
        report(1)
        save(1, link_to="/etc/hostname")
    case "deaf to signals":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        report(1)
        report(1)
        time.sleep(600)
