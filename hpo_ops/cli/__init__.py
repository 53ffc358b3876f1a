"""``hpo``: studies from the command line."""

from hpo_ops.cli.commands import main

__all__ = ["main"]
