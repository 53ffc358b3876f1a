"""Commands on existing studies: status, best, logs, stop, pause, resume, set."""

from __future__ import annotations

from typing import Annotated

import typer

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import connect
from hpo_ops.cli.logs_command import show_logs
from hpo_ops.cli.study_tables import (
    best_lines,
    front_table,
    progress_line,
    studies_table,
    trials_table,
)
from hpo_ops.cli.terminal import Json, Run, StudyName, out, print_json
from hpo_ops.cli.trigger_target import parse_changes

Reason = Annotated[str, typer.Option(help="Why; recorded with the study.")]


def status(
    study: Annotated[
        str | None, typer.Argument(help="Name of a study; all recent ones if not given.")
    ] = None,
    run_id: Run = None,
    as_json: Json = False,
) -> None:
    """Shows the state of all recent studies, or of one study with its trials."""
    session = connect()
    if study is None:
        studies = session.gateway.studies()
        if as_json:
            print_json([item.to_dict() for item in studies])
        else:
            out.print(studies_table(studies))
        return
    progress = session.study(study, run_id)
    trials = session.gateway.trials(progress.id)
    if as_json:
        print_json({**progress.to_dict(), "all_trials": [trial.to_dict() for trial in trials]})
        return
    out.print(progress_line(progress), soft_wrap=True)
    reason = f" ({progress.reason})" if progress.reason else ""
    out.print(f"State: {progress.state}{reason}", soft_wrap=True)
    out.print(trials_table(trials, progress.metric))
    page = session.airflow.run_page(progress.dag_id, progress.run_id)
    out.print(f"View more at: {page}", soft_wrap=True)


def best(study: StudyName, run_id: Run = None, as_json: Json = False) -> None:
    """Shows the best trial of a study and the URI of its checkpoint."""
    session = connect()
    progress = session.study(study, run_id)
    if progress.best is None:
        raise CommandError(f"no trial of study {study} has reported a value yet")
    if as_json:
        print_json(progress.best.to_dict())
        return
    front = session.gateway.front(progress.id)
    if len(front) > 1:
        out.print(f"Pareto front: {len(front)} trials that no other trial beats in every metric")
        out.print(front_table(front))
        return
    for line in best_lines(progress.best, progress.metric):
        out.print(line, soft_wrap=True)


def logs(
    study: StudyName,
    run_id: Run = None,
    trial: Annotated[int | None, typer.Option("--trial", "-t", help="Only this trial.")] = None,
    container: Annotated[
        str | None,
        typer.Option(
            help="The stored output of this container: training, agent, restore or packages."
        ),
    ] = None,
    is_followed: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until the study ends.")
    ] = False,
) -> None:
    """Prints the logs of a study's trials; each line starts with the number of its trial."""
    session = connect()
    progress = session.study(study, run_id)
    show_logs(session, out, progress, trial=trial, container=container, is_followed=is_followed)


def stop(study: StudyName, run_id: Run = None, reason: Reason = "") -> None:
    """Ends a study early: trials save a checkpoint and end; the best checkpoint is published."""
    session = connect()
    progress = session.study(study, run_id)
    if progress.state not in ("running", "paused", "retraining"):
        raise CommandError(
            f"study {study} cannot be stopped: it is {progress.state} ({progress.reason})"
        )
    session.gateway.stop(progress.id, reason)
    out.print(f"Study {study} is stopping; follow it with: hpo status {study}")


def pause(study: StudyName, run_id: Run = None, reason: Reason = "") -> None:
    """Pauses a study: running trials save a checkpoint and end; `hpo resume` resumes them."""
    session = connect()
    progress = session.study(study, run_id)
    if progress.state != "running":
        raise CommandError(
            f"study {study} cannot be paused: it is {progress.state} ({progress.reason})"
        )
    session.gateway.pause(progress.id, reason)
    out.print(f"Study {study} is pausing; resume it with: hpo resume {study}")


def resume(study: StudyName, run_id: Run = None) -> None:
    """Resumes a paused study from its trials' checkpoints."""
    session = connect()
    progress = session.study(study, run_id)
    if progress.state != "paused":
        raise CommandError(f"study {study} cannot be resumed: it is {progress.state}, not paused")
    session.gateway.resume(progress.id)
    out.print(f"Study {study} resumes")


def set_(
    study: StudyName,
    changes: Annotated[list[str], typer.Argument(help="Dotted keys and values: key=value.")],
    run_id: Run = None,
    as_json: Json = False,
) -> None:
    """Changes a running study: trials, parallelism, budget.wall, stop.patience, and so on.

    Prints the study's settings after the change.
    """
    session = connect()
    progress = session.study(study, run_id)
    try:
        settings = session.gateway.change(progress.id, parse_changes(changes))
    except ValueError as error:
        raise CommandError(str(error)) from error
    if as_json:
        print_json(settings)
        return
    for key, value in settings.items():
        out.print(f"{key}: {value}", soft_wrap=True)
