"""Options, checks and tables that ``hpo simulate``, ``hpo plan`` and ``hpo whatif`` share.

All three commands replay traces (recorded reports of trials with their times) under a policy. The
target is the value of the metric at which a replay has succeeded.
"""

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
from hpo_ops.simulator.policy_parsing import parse_predictor

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
        help="Predictor of learning curves, for pop and early_term: projected, wandering, mcmc "
        "or your own, options after a colon; by default the study's predictor, or projected.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of random orders and synthetic curves.")]
UnseenRule = Annotated[
    Unseen,
    typer.Option(
        "--unseen",
        help="Values of the steps that a recorded trial did not reach: its last value, a "
        "forecast, or none (the trial ends there).",
    ),
]
StartSeconds = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Seconds from getting a slot to a trial's first step; by default as recorded, or 0.",
    ),
]


@contextmanager
def value_errors_reported(prefix: str = "") -> Iterator[None]:
    """Turns a `ValueError` inside the ``with`` block into a `CommandError` with the same message.

    A `StudyError` is raised unchanged.

    Args:
        prefix: Text to put before the message.
    """
    try:
        yield
    except StudyError:
        raise
    except ValueError as error:
        raise CommandError(f"{prefix}{error}") from error


def choose_predictor(
    given: str | None, *, seed: int, study_section: Mapping[str, object] | None = None
) -> MemoPredictor:
    """Creates the predictor of learning curves that replays use.

    Args:
        given: The value of ``--curves``: a predictor's name, with options after a colon; None if
            the option is not given.
        seed: The predictor's seed.
        study_section: The section ``curves`` of a study file, used if `given` is None. If both
            are None, the predictor is ``projected``.

    Raises:
        CommandError: The name or an option of the predictor is not valid.
    """
    with value_errors_reported("--curves: " if given else ""):
        if given:
            return MemoPredictor(parse_predictor(given, seed=seed))
        name, options = name_and_options(study_section or {"name": "projected"})
        return MemoPredictor(create_predictor(name, options, seed=seed))


def name_and_options(section: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """Splits a section of a study file, such as ``scheduler``, into its name and its options."""
    return str(section["name"]), {key: value for key, value in section.items() if key != "name"}


def parse_counts(option: str, text: str) -> list[int]:
    """Parses a text such as ``2,4,8`` as positive integers, without duplicates.

    Args:
        option: The name of the command's option, for the error message.
        text: The option's value.

    Raises:
        CommandError: The text does not consist of positive integers.
    """
    counts = []
    for item in text.split(","):
        if not item.strip().isdecimal() or int(item) < 1:
            raise CommandError(
                f"{option} is {text!r}, but must be integers, 1 or more, such as 2,4,8"
            )
        counts.append(int(item))
    return list(dict.fromkeys(counts))


def parse_seconds(option: str, text: str | None) -> float | None:
    """Parses a duration such as ``30m``, or a number of seconds; returns None for None.

    Args:
        option: The name of the command's option, for the error message.
        text: The option's value.

    Raises:
        CommandError: The text is not a positive duration.
    """
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
    """Returns a warning for each policy that trains past the last step of the traces."""
    return [
        f"{name} trains up to step {policy.scheduler.max_steps}, but the traces end at step "
        f"{traces.max_steps}: a trial counts as full-length there"
        for name, policy in policies.items()
        if (policy.scheduler.max_steps or 0) > traces.max_steps
    ]


def unseen_note(traces: Traces, rule: Unseen) -> list[str]:
    """Returns a list with one note on the recorded trials that were cut short.

    The note explains how their learning curves are extended. The list is empty if no recorded
    trial was cut short.

    Args:
        traces: The recorded trials.
        rule: How the learning curves of trials that were cut short are extended.
    """
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
    """Creates a table without rows; the first column is left-aligned, all others right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold")
    return table


def show(title: str, table: Table, notes: Sequence[str]) -> None:
    """Prints a title, a table, and notes on the table, to standard output."""
    # Lines are not folded if standard output is not a terminal.
    console = out if out.is_terminal else SafeConsole(width=max(out.width, WIDE))
    console.print(title, soft_wrap=True)
    console.print(table)
    for note in notes:
        console.print(f"- {note}", soft_wrap=True)


def time_text(seconds: float, like: float | None = None) -> str:
    """Formats a duration in hours, minutes or seconds.

    Args:
        seconds: The duration.
        like: The duration by whose size the unit is chosen; None for `seconds` itself.

    >>> time_text(9000)
    '2.50 h'
    """
    size = seconds if like is None else like
    for unit, least in (("h", 2 * HOUR), ("min", 120.0)):
        if size >= least:
            return f"{seconds / (HOUR if unit == 'h' else 60.0):.2f} {unit}"
    return f"{seconds:.1f} s"


def to_target(row: Summary) -> str:
    """Formats the mean and standard deviation of a policy's time to the target.

    A replay that did not reach the target counts with the time at which the replay ended. Returns
    ``not reached`` if no replay reached the target.
    """
    if not row.reached:
        return "not reached"
    mean, deviation = row.seconds.mean, row.seconds.sd
    return f"{time_text(mean).split()[0]} ± {time_text(deviation, mean)}"


def unreached_note(rows: Iterable[Summary]) -> list[str]:
    """Returns a list with one note on how replays that did not reach the target are counted.

    The list is empty if every policy reached the target in all of its replays or in none.
    """
    if all(row.reached in (0, row.orders) for row in rows):
        return []
    return ["a replay that did not reach the target counts with the time at which it ended"]


def with_range(spread: Spread, write: Callable[[float, float], str]) -> str:
    """Formats a mean, followed by the range that contains 80 % of the values.

    Args:
        spread: The distribution of the values, with its mean and range.
        write: A function that formats its first argument in the unit or precision that suits its
            second argument, the mean.
    """
    mean, low, high = (
        write(number, spread.mean) for number in (spread.mean, spread.low, spread.high)
    )
    return f"{mean} ({low.split()[0]} to {high.split()[0]})"


def spread_json(spread: Spread | None) -> dict[str, float] | None:
    """Returns a spread (mean, standard deviation, quantiles) as JSON data, or None for None."""
    return None if spread is None else spread._asdict()
