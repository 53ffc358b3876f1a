"""What a training is made from and runs with."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hpo_ops.protocol import (
    ProtocolError,
    Provenance,
    UnsafeFileError,
    Workspace,
    read_regular,
)

logger = logging.getLogger(__name__)

MAX_BYTES = 1 << 16


class Facts:
    """What the runner knows, and what the training has said about itself.

    Args:
        workspace: The directory shared with the training.
        known: What the runner knows; asked when it is needed.
    """

    def __init__(self, workspace: Workspace, known: Callable[[], Provenance]) -> None:
        self._file = workspace.software
        self._known = known

    def gather(self) -> Provenance:
        """All facts; what the training has said wrongly is left out."""
        return self._known().over(self._said())

    def _said(self) -> Provenance:
        """What the training says it runs with; what it is made from is not its to say."""
        try:
            said = Provenance.from_json(read_regular(self._file, at_most=MAX_BYTES))
        except FileNotFoundError:
            return Provenance()
        except (OSError, ProtocolError, UnsafeFileError) as error:
            logger.warning("%s cannot be used: %s", self._file.name, error)
            return Provenance()
        return Provenance(python=said.python, packages=said.packages, devices=said.devices)
