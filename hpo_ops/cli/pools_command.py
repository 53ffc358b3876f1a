"""``hpo pools``: shows or sets the capacity of pools.

A pool is a named amount of resource units (such as GPUs) that studies share.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import connect
from hpo_ops.cli.terminal import Json, out, print_json

EPILOG = "Examples: hpo pools · hpo pools gpu=4"


def pools(
    changes: Annotated[
        list[str] | None, typer.Argument(help="Capacities to set: pool=amount.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Shows the capacity of each pool and how many of its units are leased, or sets capacities."""
    gateway = connect().gateway
    for change in changes or []:
        name, _, amount = change.partition("=")
        try:
            gateway.set_pool(name, float(amount))
        except ValueError as error:
            raise CommandError(f"{change!r} is not of the form pool=amount ({error})") from error
    found = gateway.pools()
    if as_json:
        print_json([pool.to_dict() for pool in found])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Pool", "Capacity", "Leased", "Source"):
        table.add_column(column, overflow="fold")
    for pool in found:
        source = "" if pool.capacity is None else "setting" if pool.is_fixed else "nodes"
        capacity = "unknown" if pool.capacity is None else f"{pool.capacity:g}"
        table.add_row(pool.name, capacity, f"{pool.held:g}", source)
    out.print(table)
