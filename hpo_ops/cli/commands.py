"""The commands of ``hpo``."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from hpo_ops import __version__
from hpo_ops.cli import (
    compare_command,
    experiment_command,
    import_command,
    plan_command,
    pools_command,
    reproduce_command,
    show_command,
    simulate_command,
    submit_command,
    whatif_command,
)
from hpo_ops.cli.build_command import build
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import STATE_FOLDER, Session, connect
from hpo_ops.cli.doctor_command import EXAMPLES, doctor
from hpo_ops.cli.follow_study import follow
from hpo_ops.cli.keys_command import keys
from hpo_ops.cli.logs_command import LogContainer, show_logs
from hpo_ops.cli.study_tables import (
    best_lines,
    front_table,
    progress_line,
    studies_table,
    trials_table,
)
from hpo_ops.cli.terminal import Json, Run, StudyName, err, out, print_json
from hpo_ops.cli.trace_command import trace
from hpo_ops.cli.trigger_target import parse_changes, read_target
from hpo_ops.client import GatewayRefusedError, GatewayUnreachableError, Progress
from hpo_ops.config import StudyError, load_study
from hpo_ops.isolation.allowlist import all_installed_classes_allowed
from hpo_ops.stack import Stack, StackError, Update, stopping_at_the_end, supervised

app = typer.Typer(
    name="hpo",
    help="Hyperparameter studies as Airflow DAGs, every decision explained.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
DAG_SECONDS = 90.0
EXPECTED = (
    CommandError,
    StudyError,
    StackError,
    GatewayRefusedError,
    GatewayUnreachableError,
)
"""Errors that are told in a sentence."""
READ_STUDIES = frozenset(
    {"validate", "build", "run", "import", "compare", "reproduce", "simulate", "plan", "whatif"}
)
"""Commands that read study files or policies of the user's, as that user on their own machine."""


def main() -> None:
    """Runs ``hpo``; expected errors end it with a sentence and the exit code 1."""
    try:
        app()
    except EXPECTED as error:
        err.print("hpo:", style="red", end=" ")
        err.print(str(error), soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


@app.callback()
def prepare(context: typer.Context) -> None:
    """Lets commands that read a study file of the user's use the user's own classes."""
    if context.invoked_subcommand in READ_STUDIES:
        context.with_resource(all_installed_classes_allowed())


@app.command(epilog="Example: hpo validate dags/studies/digits.yaml")
def validate(
    files: Annotated[list[Path], typer.Argument(help="Study files.")], as_json: Json = False
) -> None:
    """Checks study files and says everything that is wrong with them."""
    found: dict[str, list[str]] = {}
    for file in files:
        try:
            load_study(file)
            found[str(file)] = []
        except StudyError as error:
            found[str(file)] = error.problems
    if as_json:
        print_json(found)
    for file_name, problems in found.items():
        if not as_json and not problems:
            out.print(f"{file_name}: ok")
        for problem in problems if not as_json else []:
            err.print(f"{file_name}: {problem}", soft_wrap=True)
    if any(found.values()):
        raise typer.Exit(1)


app.command(epilog="Example: hpo build dags/studies/digits.yaml --tag team/digits:1")(build)


@app.command(
    epilog="Examples: hpo run dags/studies/digits.yaml · hpo run digits -c trials=32 --quiet"
)
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
        bool, typer.Option("--quiet", "-q", help="Print the id of the DAG run alone.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Triggers a study and follows it to its end."""
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
    ended_well = follow(session, console, dag_id=target.dag_id, run_id=run_id, name=target.name)
    try:
        progress = session.gateway.find(target.name, run_id, dag_id=target.dag_id)
    except LookupError:
        why = session.airflow.failure_of(target.dag_id, run_id, "prepare")
        raise CommandError(f"{target.name} was not started: {why or page}") from None
    ended_well &= experiment_command.follow_repeats(session, console, progress)
    if as_json:
        print_json({**progress.to_dict(), **experiment_command.end_json(session, progress)})
    elif not is_quiet:
        _show_end(session, progress)
    if not ended_well:
        raise typer.Exit(1)


def _show_end(session: Session, progress: Progress) -> None:
    run_id = progress.run_id
    out.print(f"Ended:       {progress.reason}", soft_wrap=True)
    if progress.best:
        for line in best_lines(progress.best, progress.metric):
            out.print(line, soft_wrap=True)
    out.print(f"Airflow:     {session.airflow.run_page(progress.dag_id, run_id)}", soft_wrap=True)
    for line in experiment_command.end_lines(session, progress):
        out.print(line, soft_wrap=True)


app.command(epilog=submit_command.EPILOG)(submit_command.submit)
app.command(epilog=experiment_command.EPILOG)(experiment_command.experiment)
app.command(epilog=compare_command.EPILOG)(compare_command.compare)
app.command("import", epilog=import_command.EPILOG)(import_command.import_)


@app.command(epilog="Examples: hpo status · hpo status digits --json")
def status(
    study: Annotated[
        str | None, typer.Argument(help="Name of a study; all recent ones if not given.")
    ] = None,
    run_id: Run = None,
    as_json: Json = False,
) -> None:
    """Shows how studies stand, or one study with its trials."""
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
    out.print(f"{progress.state}: {progress.reason or 'goes on'}", soft_wrap=True)
    out.print(trials_table(trials, progress.metric))
    page = session.airflow.run_page(progress.dag_id, progress.run_id)
    out.print(f"View more at: {page}", soft_wrap=True)


@app.command(epilog="Example: hpo best digits --json")
def best(study: StudyName, run_id: Run = None, as_json: Json = False) -> None:
    """Shows the best trial of a study and where its checkpoint is."""
    session = connect()
    progress = session.study(study, run_id)
    if progress.best is None:
        raise CommandError(f"no trial of {study} has reported a value yet")
    if as_json:
        print_json(progress.best.to_dict())
        return
    front = session.gateway.front(progress.id)
    if len(front) > 1:
        out.print(f"Pareto front: {len(front)} trials that no other beats in every metric")
        out.print(front_table(front))
        return
    for line in best_lines(progress.best, progress.metric):
        out.print(line, soft_wrap=True)


@app.command(epilog="Examples: hpo logs digits --follow · hpo logs digits --trial 3")
def logs(
    study: StudyName,
    run_id: Run = None,
    trial: Annotated[int | None, typer.Option("--trial", "-t", help="Only this trial.")] = None,
    container: Annotated[
        LogContainer | None,
        typer.Option(help="What this container of each pod printed, from the checkpoint store."),
    ] = None,
    is_followed: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the study ends.")
    ] = False,
) -> None:
    """Prints the logs of a study's trials, each line with its trial in front."""
    session = connect()
    progress = session.study(study, run_id)
    show_logs(session, out, progress, trial=trial, container=container, is_followed=is_followed)


@app.command(epilog='Example: hpo stop digits --reason "good enough"')
def stop(
    study: StudyName,
    run_id: Run = None,
    reason: Annotated[str, typer.Option(help="Why; it is kept with the study.")] = "",
) -> None:
    """Ends a study tidily: what runs saves and leaves, the best is published."""
    session = connect()
    progress = session.study(study, run_id)
    if progress.state not in ("running", "paused", "retraining"):
        raise CommandError(f"{study} does not run: it is {progress.state} ({progress.reason})")
    session.gateway.stop(progress.id, reason)
    out.print(f"{study} stops; follow it with: hpo status {study}")


@app.command(epilog='Example: hpo pause digits --reason "the GPUs are needed elsewhere"')
def pause(
    study: StudyName,
    run_id: Run = None,
    reason: Annotated[str, typer.Option(help="Why; it is kept with the study.")] = "",
) -> None:
    """Holds a study: what runs saves and leaves, and goes on after `hpo resume`."""
    session = connect()
    progress = session.study(study, run_id)
    if progress.state != "running":
        raise CommandError(f"{study} does not run: it is {progress.state} ({progress.reason})")
    session.gateway.pause(progress.id, reason)
    out.print(f"{study} pauses; let it go on with: hpo resume {study}")


@app.command(epilog="Example: hpo resume digits")
def resume(study: StudyName, run_id: Run = None) -> None:
    """Lets a paused study go on from its checkpoints."""
    session = connect()
    progress = session.study(study, run_id)
    if progress.state != "paused":
        raise CommandError(f"{study} is not paused: it is {progress.state}")
    session.gateway.resume(progress.id)
    out.print(f"{study} goes on")


@app.command("set", epilog="Example: hpo set digits parallelism=4 budget.wall=2h")
def set_(
    study: StudyName,
    changes: Annotated[list[str], typer.Argument(help="Dotted keys and values: key=value.")],
    run_id: Run = None,
    as_json: Json = False,
) -> None:
    """Changes a running study: trials, parallelism, budget.wall, stop.patience, and so on."""
    session = connect()
    progress = session.study(study, run_id)
    try:
        in_force = session.gateway.change(progress.id, parse_changes(changes))
    except ValueError as error:
        raise CommandError(str(error)) from error
    if as_json:
        print_json(in_force)
        return
    for key, value in in_force.items():
        out.print(f"{key}: {value}", soft_wrap=True)


app.command(epilog=EXAMPLES)(doctor)
app.command(epilog=pools_command.EPILOG)(pools_command.pools)


@app.command(epilog="Example: hpo up --port 8090; hpo up --foreground")
def up(
    port: Annotated[int | None, typer.Option(help="Preferred port of the UI.")] = None,
    foreground: Annotated[
        bool,
        typer.Option(
            help="Stays, starts again what dies or hangs, and stops everything on Ctrl-C."
        ),
    ] = False,
) -> None:
    """Starts PostgreSQL, S3 and Airflow on this machine."""
    stack = Stack(Path(STATE_FOLDER), port=port)
    stack.start(show_update)
    out.print(f"Airflow:     {stack.url}")
    out.print(f"Log in as:   {stack.username} / {stack.password}", markup=False)
    if foreground:
        out.print("Supervising; Ctrl-C stops everything")
        with stopping_at_the_end(stack, show_update):
            stack.supervise(show_line, until=threading.Event())


@app.command()
def down() -> None:
    """Stops what `hpo up` or `hpo demo` started."""
    Stack(Path(STATE_FOLDER)).stop(show_update)


@app.command(epilog="Example: hpo demo --study digits")
def demo(
    study: Annotated[str, typer.Option(help="The study to run.")] = "digits",
    port: Annotated[int | None, typer.Option(help="Preferred port of the UI.")] = None,
) -> None:
    """Starts everything on this machine and runs an example study to its end."""
    stack = Stack(Path(STATE_FOLDER), port=port)
    was_up = stack.is_healthy()
    try:
        stack.start(show_update)
        with supervised(stack, show_line):
            run(study)
    except KeyboardInterrupt:
        if not was_up:
            out.print("stopping what was started")
            stack.stop()
        raise
    out.print(f"Log in as:   {stack.username} / {stack.password}")
    out.print("The stack goes on running; stop it with: make down")


def show_update(update: Update) -> None:
    """A line of the stack's progress."""
    show_line(str(update))


def show_line(line: str) -> None:
    """A line about the stack."""
    out.print(f"  {line}", markup=False)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: hpo airflow dags trigger digits",
)
def airflow(context: typer.Context) -> None:
    """Runs a command of Airflow's against the stack of this folder."""
    done = Stack.at(Path(STATE_FOLDER)).airflow(*context.args)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    raise typer.Exit(done.returncode)


@app.command(epilog="Example: hpo gateway --port 8600")
def gateway(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8600,
) -> None:
    """Runs the gateway by itself, for tasks and agents; people log in through Airflow's."""
    import uvicorn
    from fastapi import FastAPI

    from hpo_ops.client.http_client import PREFIX
    from hpo_ops.gateway.gateway_settings import open_studies, read_rate
    from hpo_ops.gateway.http.gateway_app import create_app

    try:
        rate = read_rate(os.environ)
        studies = open_studies(os.environ)
    except ValueError as error:
        raise CommandError(str(error)) from error
    alone = FastAPI(openapi_url=None)
    alone.mount(PREFIX, create_app(studies, requests_per_second=rate))
    uvicorn.run(alone, host=host, port=port)


app.command(epilog=show_command.EPILOG)(show_command.show)
app.command(epilog=reproduce_command.EPILOG)(reproduce_command.reproduce)
app.add_typer(trace, name="trace")
app.add_typer(keys, name="keys")
app.command(epilog=simulate_command.EPILOG)(simulate_command.simulate)
app.command(epilog=plan_command.EPILOG)(plan_command.plan)
app.command(epilog=whatif_command.EPILOG)(whatif_command.whatif)


@app.command()
def version() -> None:
    """Prints the version."""
    print(__version__)
