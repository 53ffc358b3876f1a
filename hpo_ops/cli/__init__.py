"""The command-line program ``hpo``: runs, monitors, simulates and repairs studies."""

from hpo_ops.cli.commands import main

__all__ = ["main"]
