"""Finds the address of Airflow and the gateway, and connects commands to both."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hpo_ops.checkpoints import Credentials
from hpo_ops.cli.airflow_api import AirflowApi
from hpo_ops.cli.command_errors import CommandError
from hpo_ops.client import GatewayClient, Progress

STATE_FOLDER = ".hpo"


@dataclass(frozen=True)
class Address:
    """The URL of Airflow, and the credentials with which a command logs in."""

    url: str
    username: str = ""
    password: str = ""
    token: str | None = None
    store: Credentials | None = None
    """Credentials of the object store; None to read them from the ``AWS_*`` variables."""


def find_address(
    environment: Mapping[str, str] = os.environ, folder: Path | None = None
) -> Address:
    """Finds Airflow's address in the environment, or else in the state of a local stack.

    If ``HPO_URL`` is set, the credentials are ``HPO_TOKEN``, or ``HPO_USERNAME`` and
    ``HPO_PASSWORD``. Otherwise the address is that of the stack (the services that ``hpo up``
    starts) whose state is in the folder or in the nearest of its parent folders.

    Args:
        environment: The environment variables.
        folder: The folder to start from; None for the working directory.

    Raises:
        CommandError: ``HPO_URL`` is not set and no stack is found, or the stack's file cannot be
            read.
    """
    if url := environment.get("HPO_URL"):
        return Address(
            url,
            username=environment.get("HPO_USERNAME", ""),
            password=environment.get("HPO_PASSWORD", ""),
            token=environment.get("HPO_TOKEN"),
        )
    here = folder or Path.cwd()
    for parent in (here, *here.parents):
        file = parent / STATE_FOLDER / "stack.json"
        if file.is_file():
            return _read_stack(file)
    raise CommandError(
        "no Airflow is known: start one here with `hpo up`, "
        "or set HPO_URL with HPO_USERNAME and HPO_PASSWORD, or HPO_TOKEN"
    )


def _read_stack(file: Path) -> Address:
    try:
        stack = json.loads(file.read_text(encoding="utf-8"))
        s3 = stack.get("s3")
        return Address(
            stack["url"],
            stack["username"],
            stack["password"],
            store=s3
            and Credentials(
                access_key_id=s3["access_key"],
                secret_access_key=s3["secret_key"],
                endpoint=s3["endpoint"],
            ),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(
            f"{file} cannot be read ({error!r}): start the stack again with `hpo up`"
        ) from error


@dataclass(frozen=True)
class Session:
    """A command's connections to Airflow and the gateway, opened at first use."""

    address: Address

    @cached_property
    def airflow(self) -> AirflowApi:
        """A client of Airflow's REST API."""
        address = self.address
        return AirflowApi(
            address.url,
            token=address.token,
            username=address.username,
            password=address.password,
        )

    @cached_property
    def gateway(self) -> GatewayClient:
        """A client of the gateway, which sends the user's own Airflow token."""
        return GatewayClient(self.address.url, self.airflow.token, patience_seconds=30)

    def study(self, name: str, run_id: str | None = None) -> Progress:
        """Returns the progress of a study.

        Args:
            name: The name of the study.
            run_id: The id of the study's DAG run; None for the newest study of that name.

        Raises:
            CommandError: No such study exists; the message lists the studies that exist.
        """
        try:
            return self.gateway.find(name, run_id)
        except LookupError as error:
            known = sorted({study.name for study in self.gateway.studies(limit=100)})
            hint = f"; known studies: {', '.join(known)}" if known else "; no study has run yet"
            raise CommandError(f"{error}{hint}") from error


def connect() -> Session:
    """Returns a session with Airflow and the gateway at the address that `find_address` finds."""
    return Session(find_address())
