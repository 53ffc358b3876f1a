"""Reads traces for commands: from a file, a synthetic study, or a study in the gateway.

Traces are the recorded reports of trials with their times, which the simulator replays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import Session, connect
from hpo_ops.client import GatewayClient, ReportPage, SegmentSummary
from hpo_ops.simulator import TraceError, Traces, load_traces
from hpo_ops.simulator.policy_parsing import parse_options
from hpo_ops.simulator.recorded_traces import record_study
from hpo_ops.simulator.synthetic_traces import SYNTHETIC, make_synthetic

SUFFIXES = (".jsonl", ".gz")


def read_traces(source: str, *, seed: int) -> Traces:
    """Reads traces from a file, or generates the traces of a synthetic study.

    Args:
        source: The path of a file, or the name of a synthetic study with options, such as
            ``image`` or ``image:trials=50,steps=60``.
        seed: The seed with which a synthetic study is generated.

    Raises:
        CommandError: The source is neither a file nor a synthetic study, or cannot be read.
    """
    path = Path(source)
    try:
        name, options = parse_options(source)
    except ValueError:
        name, options = source, {}
    try:
        if name in SYNTHETIC:
            return make_synthetic(name, options, seed=seed)
        if path.suffix in SUFFIXES or path.exists():
            return load_traces(path)
    except ValueError as error:
        raise CommandError(str(error)) from error
    raise CommandError(
        f"traces is {source!r}, but must be a file of traces (see: hpo trace export --help), "
        f"or a synthetic study: {', '.join(SYNTHETIC)}"
    )


def is_trace_file(name: str) -> bool:
    """Returns whether a name is that of a trace file, by its suffix, and not that of a study."""
    return Path(name).suffix in SUFFIXES


def record(name: str, run_id: str | None, session: Session | None = None) -> Traces:
    """Reads all reports and segments of a study from the gateway and returns them as traces.

    A segment is one uninterrupted execution of a trial.

    Args:
        name: The name of the study.
        run_id: The id of the study's DAG run; None for the newest run.
        session: The connections to Airflow and the gateway; None to open new connections.

    Raises:
        CommandError: The study does not exist, has folds, or cannot be recorded as traces.
    """
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
