"""A command's connections to Airflow and to the gateway, and how their address is found."""

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
    """Airflow's URL and the credentials to log in with."""

    url: str
    username: str = ""
    password: str = ""
    token: str | None = None
    store: Credentials | None = None
    """Credentials of the object store; None leaves them to the ``AWS_*`` variables."""


def find_address(
    environment: Mapping[str, str] = os.environ, folder: Path | None = None
) -> Address:
    """Finds Airflow's address in the environment, or else in the stack of a folder.

    ``HPO_URL`` with ``HPO_TOKEN`` or ``HPO_USERNAME`` and ``HPO_PASSWORD`` come first; then the
    stack whose state is in this folder or the nearest one above it.

    Raises:
        CommandError: Neither exists, or the stack's file cannot be read.
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
        """Airflow's REST API."""
        address = self.address
        return AirflowApi(
            address.url,
            token=address.token,
            username=address.username,
            password=address.password,
        )

    @cached_property
    def gateway(self) -> GatewayClient:
        """The gateway, with the user's own Airflow token."""
        return GatewayClient(self.address.url, self.airflow.token, patience_seconds=30)

    def study(self, name: str, run_id: str | None = None) -> Progress:
        """Finds the newest study of a name, or the study of one DAG run.

        Raises:
            CommandError: There is no such study; the message lists the studies that exist.
        """
        try:
            return self.gateway.find(name, run_id)
        except LookupError as error:
            known = sorted({study.name for study in self.gateway.studies(limit=100)})
            hint = f"; known studies: {', '.join(known)}" if known else "; no study has run yet"
            raise CommandError(f"{error}{hint}") from error


def connect() -> Session:
    """Opens the session of this command, with the address that `find_address` finds."""
    return Session(find_address())
