"""The command line ``hpo``: runs, watches, simulates and repairs studies."""

from hpo_ops.cli.commands import main

__all__ = ["main"]
