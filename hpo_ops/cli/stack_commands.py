"""Commands on the platform's services on this machine: up, down, demo, airflow, gateway.

A stack is PostgreSQL, S3 and Airflow on one machine, with its state in the working directory.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import STATE_FOLDER
from hpo_ops.cli.run_command import run
from hpo_ops.cli.terminal import out
from hpo_ops.stack import Stack, Update, stopping_at_the_end, supervised

Port = Annotated[
    int | None, typer.Option(help="Port of the Airflow UI; another one is taken if it is in use.")
]


def up(
    port: Port = None,
    foreground: Annotated[
        bool,
        typer.Option(
            help="Stay in the foreground: restart services that die or hang, stop all on Ctrl-C."
        ),
    ] = False,
) -> None:
    """Starts PostgreSQL, S3 and Airflow on this machine."""
    stack = Stack(Path(STATE_FOLDER), port=port)
    stack.start(print_update)
    out.print(f"Airflow:     {stack.url}")
    out.print(f"Log in as:   {stack.username} / {stack.password}", markup=False)
    if foreground:
        out.print("Supervising the services; Ctrl-C stops all of them")
        with stopping_at_the_end(stack, print_update):
            stack.supervise(print_line, until=threading.Event())


def down() -> None:
    """Stops the services that `hpo up` or `hpo demo` started."""
    Stack(Path(STATE_FOLDER)).stop(print_update)


def demo(
    study: Annotated[str, typer.Option(help="The study to run.")] = "digits",
    port: Port = None,
) -> None:
    """Starts PostgreSQL, S3 and Airflow on this machine and runs an example study to its end."""
    stack = Stack(Path(STATE_FOLDER), port=port)
    was_up = stack.is_healthy()
    try:
        stack.start(print_update)
        with supervised(stack, print_line):
            run(study)
    except KeyboardInterrupt:
        if not was_up:
            out.print("Interrupted; stopping the services that were started")
            stack.stop()
        raise
    out.print(f"Log in as:   {stack.username} / {stack.password}")
    out.print("Airflow, PostgreSQL and S3 keep running; stop them with: make down")


def print_update(update: Update) -> None:
    """Prints a change in the state of one service of the stack."""
    print_line(str(update))


def print_line(line: str) -> None:
    """Prints a line of text, indented by two spaces, to standard output."""
    out.print(f"  {line}", markup=False)


def airflow(context: typer.Context) -> None:
    """Runs a command of the Airflow CLI against the stack of this folder."""
    done = Stack.at(Path(STATE_FOLDER)).airflow(*context.args)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    raise typer.Exit(done.returncode)


def gateway(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8600,
) -> None:
    """Runs the gateway in a process of its own, for Airflow's tasks and for agents.

    People cannot log in to this gateway, only to the gateway in Airflow's api-server.
    """
    import uvicorn
    from fastapi import FastAPI

    from hpo_ops.client.transport import PREFIX
    from hpo_ops.gateway.gateway_settings import open_gateway, read_rate
    from hpo_ops.gateway.http.gateway_app import create_app

    try:
        rate = read_rate(os.environ)
        gateway = open_gateway(os.environ)
    except ValueError as error:
        raise CommandError(str(error)) from error
    root = FastAPI(openapi_url=None)
    root.mount(PREFIX, create_app(gateway, requests_per_second=rate))
    uvicorn.run(root, host=host, port=port)
