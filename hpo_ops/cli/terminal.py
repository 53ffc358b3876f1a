"""What all commands share: where they print, and options that mean the same everywhere."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

StudyName = Annotated[str, typer.Argument(help="Name of the study.")]
Run = Annotated[str | None, typer.Option("--run", help="Its DAG run; the newest if not given.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

Item = TypeVar("Item")
LINE_EVERY_SECONDS = 10.0


def print_json(value: object) -> None:
    """Prints a value for scripts."""
    print(json.dumps(value, indent=2, default=str))


def track(items: Iterable[Item], *, total: int, what: str) -> Iterator[Item]:
    """Shows on standard error how far something is: a bar in a terminal, now and then a line."""
    if err.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=err, transient=True) as progress:
            yield from progress.track(items, total=total, description=what)
        return
    said_at = time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        if time.monotonic() - said_at > LINE_EVERY_SECONDS:
            said_at = time.monotonic()
            err.print(f"{what}: {done}/{total}", soft_wrap=True)
