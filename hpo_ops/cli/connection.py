"""Whom the command line talks to: Airflow and the gateway in it."""

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
    """Where Airflow is and how to log in."""

    url: str
    username: str = ""
    password: str = ""
    token: str | None = None
    store: Credentials | None = None
    """How to reach the checkpoint store; None leaves it to the ``AWS_*`` variables."""


def find_address(
    environment: Mapping[str, str] = os.environ, folder: Path | None = None
) -> Address:
    """From ``HPO_URL`` and its companions, or from the stack of this folder or one above.

    Raises:
        CommandError: There is neither.
    """
    if url := environment.get("HPO_URL"):
        return Address(
            url,
            username=environment.get("HPO_USERNAME", ""),
            password=environment.get("HPO_PASSWORD", ""),
            token=environment.get("HPO_TOKEN"),
        )
    here = folder or Path.cwd()
    for place in (here, *here.parents):
        file = place / STATE_FOLDER / "stack.json"
        if file.is_file():
            return _read_stack(file)
    raise CommandError(
        "no Airflow is known: start one here with `hpo up`, "
        "or set HPO_URL with HPO_USERNAME and HPO_PASSWORD, or HPO_TOKEN"
    )


def _read_stack(file: Path) -> Address:
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
        s3 = known.get("s3")
        return Address(
            known["url"],
            known["username"],
            known["password"],
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
    """A command's connections, made when they are first needed."""

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
        """The gateway, with the person's own token."""
        return GatewayClient(self.address.url, self.airflow.token, patience_seconds=30)

    def study(self, name: str, run_id: str | None = None) -> Progress:
        """The newest study of a name, or that of a run.

        Raises:
            CommandError: There is none; names those that there are.
        """
        try:
            return self.gateway.find(name, run_id)
        except LookupError as error:
            known = sorted({study.name for study in self.gateway.studies(limit=100)})
            hint = f"; there are: {', '.join(known)}" if known else "; none has run yet"
            raise CommandError(f"{error}{hint}") from error


def connect() -> Session:
    """The session of this command."""
    return Session(find_address())
