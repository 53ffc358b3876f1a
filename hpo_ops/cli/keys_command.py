"""``hpo keys``: creates and rotates the gateway's signing keys."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import STATE_FOLDER
from hpo_ops.cli.terminal import out
from hpo_ops.client.token_signing import KeyRing
from hpo_ops.stack import Stack

keys = typer.Typer(
    help="Creates and rotates the keys with which the gateway and Airflow's tasks sign tokens.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Examples: hpo keys new · hpo keys task · hpo keys rotate",
)


@keys.command()
def new() -> None:
    """Prints a key ring (a list of keys): a new key, followed by the keys in HPO_GATEWAY_KEYS."""
    from hpo_ops.gateway.gateway_settings import KEYS_VARIABLE

    text = os.environ.get(KEYS_VARIABLE, "")
    try:
        older = KeyRing.parse(text).keys if text else ()
    except ValueError as error:
        raise CommandError(f"{KEYS_VARIABLE}: {error}") from error
    _print(KeyRing.make(older).to_text())


@keys.command()
def task() -> None:
    """Prints the password of Airflow's connection hpo_gateway, derived from the first key."""
    _print(_gateway_keys().task_key())


@keys.command()
def token() -> None:
    """Prints a token for an operator's scripts that is valid for one hour and for all studies."""
    from hpo_ops.gateway.tokens import issue_service_token

    _print(issue_service_token(_gateway_keys()))


@keys.command()
def rotate(
    retire: Annotated[
        bool, typer.Option("--retire", help="Instead, remove all keys except the first.")
    ] = False,
) -> None:
    """Adds a new first key to the keys of this folder's stack, or removes the older keys.

    New tokens are signed with the first key. Each service of the stack reads the keys when it
    starts. Tokens that were signed with an older key stay valid until the older keys are removed,
    so that running studies are not interrupted.
    """
    stack = Stack.at(Path(STATE_FOLDER))
    ring = stack.gateway_keys
    changed = KeyRing((ring.first,)) if retire else KeyRing.make(ring.keys)
    stack.set_gateway_keys(changed)
    out.print(f"Keys now:    {', '.join(key.id for key in changed)}", markup=False)
    out.print(
        "Restart the api-server, so that the gateway reads the keys; then Airflow's other services"
    )


def _gateway_keys() -> KeyRing:
    """Reads the gateway's signing keys from the environment.

    If the environment has no keys, returns those of the stack in the working directory.

    Raises:
        CommandError: The keys in the environment are not valid.
    """
    from hpo_ops.gateway.gateway_settings import KEYS_VARIABLE, SECRET_VARIABLE, read_keys

    if not (os.environ.get(KEYS_VARIABLE) or os.environ.get(SECRET_VARIABLE)):
        return Stack.at(Path(STATE_FOLDER)).gateway_keys
    try:
        return read_keys(os.environ)
    except ValueError as error:
        raise CommandError(str(error)) from error


def _print(text: str) -> None:
    out.print(text, markup=False, highlight=False, soft_wrap=True)
