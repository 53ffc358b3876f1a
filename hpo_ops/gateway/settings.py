"""The gateway's settings, from the environment."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from hpo_ops.config import GENERIC_DAGS
from hpo_ops.gateway.studies import Studies
from hpo_ops.ledger import Ledger, leases
from hpo_ops.ledger.schema import pools

LEDGER_VARIABLE = "HPO_LEDGER_URL"
SECRET_VARIABLE = "HPO_GATEWAY_SECRET"  # noqa: S105  a name, not a secret
POOLS_VARIABLE = "HPO_POOLS"
JOB_RUNNER_VARIABLE = "HPO_JOB_RUNNER"
CLUSTER_VARIABLES = ("AIRFLOW_CONN_KUBERNETES_DEFAULT", "KUBERNETES_SERVICE_HOST")
"""By these a deployment has a Kubernetes: a connection to one, or being in one."""
MIN_SECRET = 32


def open_studies(
    environment: Mapping[str, str] = os.environ, *, wait_seconds: float = 0.0
) -> Studies:
    """The gateway's work on the ledger that the environment names.

    Args:
        environment: The settings.
        wait_seconds: How long a database that does not answer is waited for.

    Raises:
        ValueError: A setting is missing or cannot be used.
    """
    for name in (LEDGER_VARIABLE, SECRET_VARIABLE):
        if not environment.get(name):
            raise ValueError(f"{name} is missing, but the gateway needs it")
    secret = environment[SECRET_VARIABLE]
    if len(secret) < MIN_SECRET:
        raise ValueError(
            f"{SECRET_VARIABLE} has {len(secret)} characters, but must have {MIN_SECRET} or more"
        )
    ledger = _open_ledger(environment[LEDGER_VARIABLE], wait_seconds)
    _set_pools(ledger, parse_pools(environment.get(POOLS_VARIABLE, "")))
    return Studies(ledger, secret)


def _open_ledger(url: str, wait_seconds: float) -> Ledger:
    give_up_at = time.monotonic() + wait_seconds
    while True:
        try:
            return Ledger.open(url)
        except OperationalError:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(0.5)


def parse_pools(text: str) -> dict[str, float]:
    """Capacities from ``local=4,gpu=8``.

    >>> parse_pools("gpu=8")
    {'gpu': 8.0}
    """
    capacities: dict[str, float] = {}
    for item in filter(None, text.split(",")):
        name, _, amount = item.partition("=")
        try:
            capacities[name.strip()] = float(amount)
        except ValueError:
            raise ValueError(
                f"{POOLS_VARIABLE} has {item!r}, but must be like local=4,gpu=8"
            ) from None
    return capacities


def job_runner(environment: Mapping[str, str] = os.environ) -> str:
    """Where trials of jobs run: as the deployment says, else as pods where there is a cluster.

    Raises:
        ValueError: There is no such runner.
    """
    found = environment.get(JOB_RUNNER_VARIABLE)
    if not found:
        has_cluster = any(environment.get(name) for name in CLUSTER_VARIABLES)
        return "kubernetes" if has_cluster else "local"
    if found not in GENERIC_DAGS:
        raise ValueError(
            f"{JOB_RUNNER_VARIABLE} is {found!r}, but must be one of {', '.join(GENERIC_DAGS)}"
        )
    return found


def _set_pools(ledger: Ledger, capacities: Mapping[str, float]) -> None:
    """Sets the given pools; this machine's has a place for each core until someone says more."""
    with ledger.engine.begin() as connection:
        known = connection.execute(select(pools.c.name)).scalars()
        if "local" not in {*known, *capacities}:
            leases.set_capacity(connection, "local", float(os.cpu_count() or 1))
        for name, capacity in capacities.items():
            leases.set_capacity(connection, name, capacity)
