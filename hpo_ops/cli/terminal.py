"""Consoles, progress bars and options that all commands share."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_MOVEMENTS = re.compile(r"[\a\b\v\f\r]")
_CONTROLS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"  # C0 but for tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # change the order in which text is shown
)


def visible(text: str) -> str:
    """Removes or escapes control characters in untrusted text, for safe display in a terminal.

    Colours, bells and characters that move the cursor are removed. Every other control character,
    except tab and newline, is escaped as in a Python string, such as ``\\x1b``.
    """
    plain = _MOVEMENTS.sub("", _COLOURS.sub("", text))
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], plain)


class SafeConsole(Console):
    """A console that prints text from trainings and other users without interpreting it.

    Control characters are removed or escaped, and markup such as ``[link=…]`` in a reason, a name
    or a parameter is printed as plain text. Styles that the commands themselves set are applied.
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, stderr=stderr, width=width)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


out = SafeConsole()
err = SafeConsole(stderr=True)

StudyName = Annotated[str, typer.Argument(help="Name of the study.")]
Run = Annotated[
    str | None, typer.Option("--run", help="Id of the study's DAG run; by default the newest.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

Item = TypeVar("Item")
LINE_EVERY_SECONDS = 10.0


def print_json(value: object) -> None:
    """Prints a value as indented JSON on standard output."""
    print(json.dumps(value, indent=2, default=str))


def track(items: Iterable[Item], *, total: int, what: str) -> Iterator[Item]:
    """Yields the given items, and prints to standard error how many have been processed.

    In a terminal the progress is a bar; otherwise a line is printed every `LINE_EVERY_SECONDS`.

    Args:
        items: The items.
        total: The number of items.
        what: The label of the progress: what the items are, such as ``replays``.
    """
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
    printed_at = time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        if time.monotonic() - printed_at > LINE_EVERY_SECONDS:
            printed_at = time.monotonic()
            err.print(f"{what}: {done}/{total}", soft_wrap=True)
