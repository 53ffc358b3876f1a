"""Reads the gateway's settings from environment variables."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping

from hpo_ops.checkpoints.allowed_stores import AllowedStores
from hpo_ops.client.token_signing import KeyRing, SigningKey
from hpo_ops.config.runner_registry import all_runners
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.http.request_limits import REQUESTS_PER_SECOND
from hpo_ops.ledger import Ledger, leases
from hpo_ops.ledger.database_errors import DatabaseUnavailableError
from hpo_ops.ledger.pool_usage import list_pools

LEDGER_VARIABLE = "HPO_LEDGER_URL"
KEYS_VARIABLE = "HPO_GATEWAY_KEYS"
SECRET_VARIABLE = "HPO_GATEWAY_SECRET"  # noqa: S105  a name, not a secret
RATE_VARIABLE = "HPO_REQUESTS_PER_SECOND"
POOLS_VARIABLE = "HPO_POOLS"
SHARE_VARIABLE = "HPO_SHARE"
JOB_RUNNER_VARIABLE = "HPO_JOB_RUNNER"


def open_gateway(
    environment: Mapping[str, str] = os.environ, *, wait_seconds: float = 0.0
) -> Gateway:
    """Opens the ledger at `HPO_LEDGER_URL` and creates the gateway's services on it.

    Args:
        environment: The environment variables.
        wait_seconds: How long to wait for a database that does not respond.

    Raises:
        ValueError: A setting is missing or invalid.
        DatabaseUnavailableError: The database did not respond in time.
    """
    if not environment.get(LEDGER_VARIABLE):
        raise ValueError(f"{LEDGER_VARIABLE} is missing, but the gateway needs it")
    keys = read_keys(environment)
    ledger = _open_ledger(environment[LEDGER_VARIABLE], wait_seconds)
    _set_pools(ledger, parse_pools(environment.get(POOLS_VARIABLE, "")))
    return Gateway.on_ledger(
        ledger,
        keys,
        stores=AllowedStores.from_environment(environment),
        share=parse_sharing(environment.get(SHARE_VARIABLE, "")),
    )


def read_keys(environment: Mapping[str, str] = os.environ) -> KeyRing:
    """Returns the keys that sign and verify the gateway's tokens; the first key signs.

    The keys of `HPO_GATEWAY_KEYS` come first. The secret of `HPO_GATEWAY_SECRET`, which older
    deployments use, comes last, so that it signs only if there is no other key.

    Raises:
        ValueError: No key is set, or a key is invalid.
    """
    keys: tuple[SigningKey, ...] = ()
    for variable, read in ((KEYS_VARIABLE, KeyRing.parse), (SECRET_VARIABLE, KeyRing.of_secret)):
        if text := environment.get(variable):
            try:
                keys += read(text).keys
            except ValueError as error:
                raise ValueError(f"{variable}: {error}") from None
    if not keys:
        raise ValueError(f"{KEYS_VARIABLE} is missing, but the gateway needs it to sign tokens")
    return KeyRing(keys)


def read_rate(environment: Mapping[str, str] = os.environ) -> float:
    """Returns the rate limit of each caller in requests per second; 0 for no limit.

    Raises:
        ValueError: `HPO_REQUESTS_PER_SECOND` is not a finite number, or is negative.
    """
    text = environment.get(RATE_VARIABLE, "")
    try:
        rate = float(text) if text else REQUESTS_PER_SECOND
    except ValueError:
        rate = math.nan
    if not 0 <= rate < math.inf:
        raise ValueError(f"{RATE_VARIABLE} is {text!r}, but must be a number, 0 or more")
    return rate


def parse_sharing(text: str) -> tuple[str, ...]:
    """Parses `HPO_SHARE`: ids of DAGs with which all studies share trials; ``*`` is every DAG.

    >>> parse_sharing("digits, mnist")
    ('digits', 'mnist')
    """
    return tuple(filter(None, (item.strip() for item in text.split(","))))


def _open_ledger(url: str, wait_seconds: float) -> Ledger:
    give_up_at = time.monotonic() + wait_seconds
    while True:
        try:
            return Ledger.open(url)
        except DatabaseUnavailableError:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(0.5)


def parse_pools(text: str) -> dict[str, float]:
    """Parses `HPO_POOLS`: the capacity of each pool by name, in resource units (such as GPUs).

    >>> parse_pools("gpu=8")
    {'gpu': 8.0}

    Raises:
        ValueError: The text is not like ``local=4,gpu=8``.
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
    """Returns the name of the runner that executes the trials of jobs.

    It is the runner that `HPO_JOB_RUNNER` names. If the variable is not set, it is the runner that
    declares the highest priority for this environment.

    Raises:
        ValueError: `HPO_JOB_RUNNER` names a runner that does not exist.
    """
    runners = all_runners()
    found = environment.get(JOB_RUNNER_VARIABLE)
    if not found:
        return max(runners, key=lambda name: runners[name].job_priority(environment))
    if found not in runners:
        raise ValueError(
            f"{JOB_RUNNER_VARIABLE} is {found!r}, but must be one of {', '.join(runners)}"
        )
    return found


def _set_pools(ledger: Ledger, capacities: Mapping[str, float]) -> None:
    """Sets the capacities of the given pools, and creates missing default pools of runners.

    A missing default pool gets the initial capacity that its runner defines.
    """
    with ledger.begin() as connection:
        known = {pool.name for pool in list_pools(connection)}
        initial = {
            name: capacity
            for runner in all_runners().values()
            for name, capacity in runner.initial_pools().items()
        }
        missing = initial.keys() - {*known, *capacities}
        for name, capacity in {**{name: initial[name] for name in missing}, **capacities}.items():
            leases.set_capacity(connection, name, capacity)
