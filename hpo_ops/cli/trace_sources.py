"""Traces as commands get them: from a file, made up, or recorded from a study."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import Session, connect
from hpo_ops.client import GatewayClient, ReportPage, SegmentSummary
from hpo_ops.simulator import TraceError, Traces, load_traces
from hpo_ops.simulator.policy_words import parse_options
from hpo_ops.simulator.recorded_traces import record_study
from hpo_ops.simulator.synthetic_traces import SYNTHETIC, make_synthetic

SUFFIXES = (".jsonl", ".gz")


def read_traces(words: str, *, seed: int) -> Traces:
    """A file of traces, or a synthetic study such as ``image`` or ``image:trials=50,steps=60``."""
    path = Path(words)
    try:
        name, options = parse_options(words)
    except ValueError:
        name, options = words, {}
    try:
        if name in SYNTHETIC:
            return make_synthetic(name, options, seed=seed)
        if path.suffix in SUFFIXES or path.exists():
            return load_traces(path)
    except ValueError as error:
        raise CommandError(str(error)) from error
    raise CommandError(
        f"traces is {words!r}, but must be a file of traces (see: hpo trace export --help), "
        f"or a synthetic study: {', '.join(SYNTHETIC)}"
    )


def is_file_of_traces(words: str) -> bool:
    """Whether a word names a file rather than a study."""
    return Path(words).suffix in SUFFIXES


def record(name: str, run_id: str | None, session: Session | None = None) -> Traces:
    """Records a study through the gateway."""
    session = session or connect()
    progress = session.study(name, run_id)
    gateway = session.gateway
    if progress.folds:
        raise CommandError(f"{name} has folds, but only studies without folds can be recorded")
    try:
        return record_study(
            progress,
            gateway.config(progress.id),
            reports=list(_report_pages(gateway, progress.id)),
            segments=list(_segments(gateway, progress.id)),
            trials=gateway.trials(progress.id),
        )
    except TraceError as error:
        raise CommandError(str(error)) from error


def _report_pages(gateway: GatewayClient, study_id: int) -> Iterator[ReportPage]:
    page = gateway.reports(study_id)
    while page.ids:
        yield page
        page = gateway.reports(study_id, after=page.ids[-1])


def _segments(gateway: GatewayClient, study_id: int) -> Iterator[SegmentSummary]:
    offset = 0
    while page := gateway.segments(study_id, offset=offset):
        yield from page
        offset += len(page)
