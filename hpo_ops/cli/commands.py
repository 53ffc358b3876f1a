"""The ``hpo`` program: registers its commands, and maps errors to messages and exit codes."""

from __future__ import annotations

import sys

import typer

from hpo_ops import __version__
from hpo_ops.cli import (
    compare_command,
    experiment_command,
    import_command,
    init_command,
    plan_command,
    pools_command,
    reproduce_command,
    run_command,
    show_command,
    simulate_command,
    stack_commands,
    study_commands,
    submit_command,
    test_command,
    validate_command,
    whatif_command,
)
from hpo_ops.cli.build_command import build
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.doctor_command import EXAMPLES, doctor
from hpo_ops.cli.keys_command import keys
from hpo_ops.cli.terminal import err
from hpo_ops.cli.trace_command import trace
from hpo_ops.client import GatewayRefusedError, GatewayUnreachableError
from hpo_ops.config import StudyError
from hpo_ops.curves import MissingPackageError
from hpo_ops.isolation.allowlist import all_installed_classes_allowed
from hpo_ops.stack import StackError

app = typer.Typer(
    name="hpo",
    help="Hyperparameter studies as Airflow DAGs, every decision explained.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
EXPECTED = (
    CommandError,
    StudyError,
    StackError,
    GatewayRefusedError,
    GatewayUnreachableError,
    MissingPackageError,
)
"""Errors that are printed as one sentence; any other error is a bug and prints a traceback."""
READ_STUDIES = frozenset(
    {
        "validate",
        "test",
        "build",
        "run",
        "import",
        "compare",
        "reproduce",
        "simulate",
        "plan",
        "whatif",
    }
)
"""Commands that read the user's study files or policies, and may import the user's classes."""


def main() -> None:
    """Runs ``hpo``; prints an expected error as one sentence and exits with the code 1."""
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
    """Allows a command that reads the user's study files to import the user's own classes."""
    if context.invoked_subcommand in READ_STUDIES:
        context.with_resource(all_installed_classes_allowed())


app.command(epilog="Example: hpo validate dags/studies/digits.yaml")(validate_command.validate)
app.command(epilog=init_command.EPILOG)(init_command.init)
app.command("test", epilog=test_command.EPILOG)(test_command.try_out)
app.command(epilog="Example: hpo build dags/studies/digits.yaml --tag team/digits:1")(build)
app.command(
    epilog="Examples: hpo run dags/studies/digits.yaml · hpo run digits -c trials=32 --quiet"
)(run_command.run)
app.command(epilog=submit_command.EPILOG)(submit_command.submit)
app.command(epilog=experiment_command.EPILOG)(experiment_command.experiment)
app.command(epilog=compare_command.EPILOG)(compare_command.compare)
app.command("import", epilog=import_command.EPILOG)(import_command.import_)
app.command(epilog="Examples: hpo status · hpo status digits --json")(study_commands.status)
app.command(epilog="Example: hpo best digits --json")(study_commands.best)
app.command(epilog="Examples: hpo logs digits --follow · hpo logs digits --trial 3")(
    study_commands.logs
)
app.command(epilog='Example: hpo stop digits --reason "good enough"')(study_commands.stop)
app.command(epilog='Example: hpo pause digits --reason "the GPUs are needed elsewhere"')(
    study_commands.pause
)
app.command(epilog="Example: hpo resume digits")(study_commands.resume)
app.command("set", epilog="Example: hpo set digits parallelism=4 budget.wall=2h")(
    study_commands.set_
)
app.command(epilog=EXAMPLES)(doctor)
app.command(epilog=pools_command.EPILOG)(pools_command.pools)
app.command(epilog="Examples: hpo up --port 8090 · hpo up --foreground")(stack_commands.up)
app.command()(stack_commands.down)
app.command(epilog="Example: hpo demo --study digits")(stack_commands.demo)
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: hpo airflow dags trigger digits",
)(stack_commands.airflow)
app.command(epilog="Example: hpo gateway --port 8600")(stack_commands.gateway)
app.command(epilog=show_command.EPILOG)(show_command.show)
app.command(epilog=reproduce_command.EPILOG)(reproduce_command.reproduce)
app.add_typer(trace, name="trace")
app.add_typer(keys, name="keys")
app.command(epilog=simulate_command.EPILOG)(simulate_command.simulate)
app.command(epilog=plan_command.EPILOG)(plan_command.plan)
app.command(epilog=whatif_command.EPILOG)(whatif_command.whatif)


@app.command()
def version() -> None:
    """Prints the version of hpo-ops."""
    print(__version__)
