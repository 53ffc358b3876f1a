"""``hpo trace``: writes the traces of a study to a file.

Traces are the recorded reports of trials with their times, which the simulator replays.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.terminal import Run, StudyName, err
from hpo_ops.cli.trace_sources import SUFFIXES, record
from hpo_ops.simulator import save_traces
from hpo_ops.simulator.trace_files import dump_traces

trace = typer.Typer(
    help="Records studies as traces, which `hpo simulate`, `plan` and `whatif` replay.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: hpo trace export digits -o digits.jsonl.gz",
)


@trace.command(
    epilog="Examples: hpo trace export digits -o digits.jsonl.gz · hpo trace export digits | head"
)
def export(
    study: StudyName,
    run_id: Run = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File, .jsonl or .jsonl.gz; by default standard output."
        ),
    ] = None,
) -> None:
    """Writes the reports of a study's trials, and the times at which their segments ran."""
    if output is not None and output.suffix not in SUFFIXES:
        raise CommandError(f"--output is {output}, but must end in .jsonl or .jsonl.gz")
    traces = record(study, run_id)
    if output is None:
        sys.stdout.writelines(dump_traces(traces))
    else:
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            save_traces(traces, output)
        except OSError as error:
            raise CommandError(f"{output}: cannot be written: {error.strerror}") from error
    reports = sum(len(trial.values) for trial in traces.trials)
    silent = len(traces.terms.silent) if traces.terms else 0
    without = f"; {silent} trials without reports are left out" if silent else ""
    where = "" if output is None else f" to {output}"
    err.print(
        f"{len(traces.trials)} trials, {reports} reports{where}{without}",
        soft_wrap=True,
    )
