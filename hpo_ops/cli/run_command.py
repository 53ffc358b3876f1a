"""``hpo run``: triggers the DAG run of a study and shows its progress until it ends."""

from __future__ import annotations

from typing import Annotated

import typer

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import Session, connect
from hpo_ops.cli.experiment_command import end_json, end_lines, follow_repeats
from hpo_ops.cli.follow_study import follow
from hpo_ops.cli.study_tables import best_lines
from hpo_ops.cli.terminal import Json, err, out, print_json
from hpo_ops.cli.trigger_target import DAG_SECONDS, parse_changes, read_target
from hpo_ops.client import Progress


def run(
    study: Annotated[str, typer.Argument(help="A study file, or the name of a study with a DAG.")],
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", "-c", help="Change a key for this run: key=value; repeatable."),
    ] = None,
    is_followed: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Show progress until the study ends.")
    ] = True,
    is_quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the id of the DAG run.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Starts a study and shows its progress until it ends."""
    target = read_target(study, parse_changes(conf or []))
    session = connect()
    session.airflow.wait_for_dag(target.dag_id, seconds=DAG_SECONDS)
    run_id = session.airflow.trigger(target.dag_id, target.conf)
    page = session.airflow.run_page(target.dag_id, run_id)
    if is_quiet:
        print(run_id)
    elif not as_json:
        out.print(f"Started study {target.name}: {page}", soft_wrap=True)
    if not is_followed:
        if as_json:
            print_json({"study": target.name, "run_id": run_id})
        return
    console = err if as_json or is_quiet else out
    is_success = follow(session, console, dag_id=target.dag_id, run_id=run_id, name=target.name)
    try:
        progress = session.gateway.find(target.name, run_id, dag_id=target.dag_id)
    except LookupError:
        why = session.airflow.failure_of(target.dag_id, run_id, "prepare")
        raise CommandError(f"study {target.name} was not started: {why or page}") from None
    is_success &= follow_repeats(session, console, progress)
    if as_json:
        print_json({**progress.to_dict(), **end_json(session, progress)})
    elif not is_quiet:
        _print_end(session, progress)
    if not is_success:
        raise typer.Exit(1)


def _print_end(session: Session, progress: Progress) -> None:
    run_id = progress.run_id
    out.print(f"Ended:       {progress.reason}", soft_wrap=True)
    if progress.best:
        for line in best_lines(progress.best, progress.metric):
            out.print(line, soft_wrap=True)
    out.print(f"Airflow:     {session.airflow.run_page(progress.dag_id, run_id)}", soft_wrap=True)
    for line in end_lines(session, progress):
        out.print(line, soft_wrap=True)
