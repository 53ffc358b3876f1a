"""What `hpo simulate`, `hpo plan` and `hpo whatif` share: options, checks, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.table import Table

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.terminal import SafeConsole, out
from hpo_ops.config import StudyError
from hpo_ops.config.durations import parse_duration
from hpo_ops.curves import create_predictor
from hpo_ops.simulator import MemoPredictor, Spread, Summary, Traces
from hpo_ops.simulator.extrapolation import Unseen
from hpo_ops.simulator.policy_comparison import Policy
from hpo_ops.simulator.policy_words import parse_predictor

HOUR = 3600.0
WIDE = 200

Schedulers = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler",
        "-s",
        help="Policies by name, separated by commas; options after a colon (asha:eta=4), an "
        "allocator after a plus (hypersched+uniform); or a study file. Repeatable.",
    ),
]
Allocator = Annotated[
    str | None,
    typer.Option(help="Allocator of the policies that name none: name, or name:key=value."),
]
Curves = Annotated[
    str | None,
    typer.Option(
        help="Who forecasts learning curves, for pop and early_term: projected, wandering, mcmc "
        "or your own, with options after a colon; as in the study if not given, else projected.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of orders and of made-up curves.")]
UnseenRule = Annotated[
    Unseen,
    typer.Option(
        "--unseen",
        help="What stands for the steps that a recorded trial did not get to: its last value, "
        "a forecast, or nothing (the trial ends there).",
    ),
]
StartSeconds = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Seconds from a place to a trial's first step; as recorded if not given, else 0.",
    ),
]


@contextmanager
def told_in_a_sentence(where: str = "") -> Iterator[None]:
    """Turns a value that is refused deeper down into an error of the command."""
    try:
        yield
    except StudyError:
        raise
    except ValueError as error:
        raise CommandError(f"{where}{error}") from error


def choose_predictor(
    words: str | None, *, seed: int, usual: Mapping[str, object] | None = None
) -> MemoPredictor:
    """Who forecasts: as said, else as in the study.

    Args:
        words: What was said.
        seed: Its seed.
        usual: The study's own, as in its file.
    """
    with told_in_a_sentence("--curves: " if words else ""):
        if words:
            return MemoPredictor(parse_predictor(words, seed=seed))
        name, options = named(usual or {"name": "projected"})
        return MemoPredictor(create_predictor(name, options, seed=seed))


def named(words: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """A policy as in a study file as its name and its options."""
    return str(words["name"]), {key: value for key, value in words.items() if key != "name"}


def parse_counts(option: str, text: str) -> list[int]:
    """``2,4,8`` as numbers."""
    found = []
    for word in text.split(","):
        if not word.strip().isdecimal() or int(word) < 1:
            raise CommandError(
                f"{option} is {text!r}, but must be whole numbers, 1 or more, such as 2,4,8"
            )
        found.append(int(word))
    return list(dict.fromkeys(found))


def parse_seconds(option: str, text: str | None) -> float | None:
    """A duration such as 30m, or a number of seconds."""
    if text is None:
        return None
    try:
        seconds = float(text) if text.replace(".", "", 1).isdecimal() else parse_duration(text)
    except ValueError as error:
        raise CommandError(f"{option} {error}") from error
    if not isinstance(seconds, float) or not seconds > 0:
        raise CommandError(f"{option} is {text!r}, but must be above 0")
    return seconds


def check_length(policies: dict[str, Policy], traces: Traces) -> list[str]:
    """What to say of policies that want more steps than there are."""
    return [
        f"{name} trains up to step {policy.scheduler.max_steps}, but the traces end at step "
        f"{traces.max_steps}: there trials are whole"
        for name, policy in policies.items()
        if (policy.scheduler.max_steps or 0) > traces.max_steps
    ]


def unseen_note(traces: Traces, rule: Unseen) -> list[str]:
    """How many recorded trials were cut short, and what stands for the rest of each."""
    cut = [
        trial.record.trial
        for trial in traces.trials
        if trial.record is not None and trial.record.is_cut_short
    ]
    if not cut:
        return []
    return [
        f"{len(cut)} of {len(traces.trials)} recorded trials were cut short: {rule.explanation}"
    ]


def figure_table(*columns: str) -> Table:
    """A table with a name on the left and figures on the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    return table


def show(title: str, table: Table, notes: Sequence[str]) -> None:
    """Prints a table with what is to be known about it."""
    # In a file nothing is folded.
    console = out if out.is_terminal else SafeConsole(width=max(out.width, WIDE))
    console.print(title, soft_wrap=True)
    console.print(table)
    for note in notes:
        console.print(f"- {note}", soft_wrap=True)


def time_text(seconds: float, like: float | None = None) -> str:
    """A time in hours, minutes or seconds, whichever suits it or the time it stands beside.

    >>> time_text(9000)
    '2.50 h'
    """
    size = seconds if like is None else like
    for unit, least in (("h", 2 * HOUR), ("min", 120.0)):
        if size >= least:
            return f"{seconds / (HOUR if unit == 'h' else 60.0):.2f} {unit}"
    return f"{seconds:.1f} s"


def to_target(row: Summary) -> str:
    """Time to the target, mean and deviation; a run that never got there counts with its end."""
    if not row.reached:
        return "not reached"
    mean, deviation = row.seconds.mean, row.seconds.sd
    return f"{time_text(mean).split()[0]} ± {time_text(deviation, mean)}"


def unreached_note(rows: Iterable[Summary]) -> list[str]:
    """What a time to the target means where it was not always reached."""
    if all(row.reached in (0, row.orders) for row in rows):
        return []
    return ["a run that ended without reaching the target counts with the time at which it ended"]


def with_range(spread: Spread, write: Callable[[float, float], str]) -> str:
    """A mean with the range of eight in ten, each written by a function."""
    mean, low, high = (
        write(number, spread.mean) for number in (spread.mean, spread.low, spread.high)
    )
    return f"{mean} ({low.split()[0]} to {high.split()[0]})"


def spread_json(spread: Spread | None) -> dict[str, float] | None:
    """A spread for scripts."""
    return None if spread is None else spread._asdict()
