"""``hpo show``: shows one trial with its segments, folds and provenance.

A segment is one uninterrupted execution of a trial, a fold is one of the trainings of a trial
under cross-validation, and provenance is the code, image, packages and devices of a training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.table import Table

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import Session, connect
from hpo_ops.cli.study_tables import params_text, with_deviation
from hpo_ops.cli.terminal import Json, Run, StudyName, out, print_json
from hpo_ops.client import FoldSummary, Progress, TrialDetail
from hpo_ops.protocol import Provenance

EPILOG = "Examples: hpo show digits 3 · hpo show digits 3 --json | jq .segments[].provenance"
TrialNumber = Annotated[int, typer.Argument(help="Number of the trial.")]


def show(study: StudyName, trial: TrialNumber, run_id: Run = None, as_json: Json = False) -> None:
    """Shows one trial: its parameters, seed, segments and provenance."""
    session = connect()
    progress = session.study(study, run_id)
    detail = find_trial(session, progress, trial)
    if as_json:
        print_json({**detail.to_dict(), "provenance": detail.provenance.known()})
        return
    for name, value in trial_lines(detail, progress.metric):
        out.print(f"{name + ':':<13}{value}", soft_wrap=True)
    if detail.summary.folds:
        out.print(folds_table(detail.summary.folds, progress.metric))
    out.print(segments_table(detail))


def find_trial(session: Session, progress: Progress, number: int) -> TrialDetail:
    """Reads a trial of a study from the gateway.

    Raises:
        CommandError: The study has no such trial.
    """
    try:
        return session.gateway.trial(progress.id, number)
    except LookupError as error:
        raise CommandError(str(error)) from error


def trial_lines(detail: TrialDetail, metric: str) -> Iterator[tuple[str, str]]:
    """Yields the properties of a trial, such as its value and seed, as pairs of label and text."""
    summary = detail.summary
    value = "no value yet"
    if summary.value is not None:
        value = f"{metric} {with_deviation(summary.value, summary.deviation, 6)}"
    reason = f": {summary.reason}" if summary.reason else ""
    yield "Trial", f"{summary.trial}, {summary.state}{reason}"
    yield "Value", f"{value} after {summary.step} steps"
    yield "Parameters", params_text(dict(summary.params))
    if summary.served:
        yield "Cache", f"from {summary.served}"
    yield "Seed", str(detail.seed)
    yield "Data", detail.data_version or "no data_version in the study"
    yield from provenance_lines(detail.provenance)


def provenance_lines(found: Provenance) -> Iterator[tuple[str, str]]:
    """Yields the provenance of a training as pairs of label and text; skips unknown properties."""
    yield "Code", found.code_hash or "no hash"
    if found.commit:
        changed = ", with uncommitted changes" if found.is_dirty else ""
        yield "Commit", f"{found.commit}{changed}"
    if found.image:
        yield "Image", f"{found.image} {found.image_digest or ''}".strip()
    if found.python:
        yield "Python", found.python
    if found.packages:
        yield "Packages", " ".join(f"{name}={text}" for name, text in found.packages.items())
    if found.devices:
        yield "Devices", ", ".join(found.devices)
    if found.resources:
        yield "Resources", params_text(found.resources)


def folds_table(folds: Sequence[FoldSummary], metric: str) -> Table:
    """Returns a table of a trial's folds, with the value of each fold at the trial's best step."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Fold", "Number", "State", "Step", metric, "Why"):
        table.add_column(column, overflow="fold")
    for fold in folds:
        table.add_row(
            f"{fold.fold + 1}/{len(folds)}",
            str(fold.number),
            fold.state,
            str(fold.step),
            "" if fold.value is None else f"{fold.value:.5g}",
            fold.reason,
        )
    return table


def segments_table(detail: TrialDetail) -> Table:
    """Returns a table of a trial's segments, oldest first, with the fold of each, if any."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    names = {fold.number: str(fold.fold + 1) for fold in detail.summary.folds}
    which = ("Fold",) if names else ()
    columns = ("Segment", *which, "Runner", "From", "Until", "Step", "Outcome", "Code", "Why")
    for column in columns:
        table.add_column(column, overflow="fold")
    for segment in detail.segments:
        table.add_row(
            segment.id[:8],
            *([names.get(segment.trial, "")] if names else []),
            segment.runner,
            str(segment.from_step),
            str(segment.until_step or ""),
            "" if segment.step is None else str(segment.step),
            segment.outcome or "running",
            (segment.provenance.code_hash or "")[:8],
            segment.reason,
        )
    return table
