"""``hpo``: studies from the command line."""

from hpo_ops.cli.app import main

__all__ = ["main"]
