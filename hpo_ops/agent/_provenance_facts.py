"""Gathers the provenance of a segment from its runner and from the training itself."""

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


class ProvenanceFacts:
    """The provenance that the runner knows, completed by what the training wrote about itself.

    Args:
        workspace: The directory shared with the training.
        known: The runner's part; called when it is needed.
    """

    def __init__(self, workspace: Workspace, known: Callable[[], Provenance]) -> None:
        self._file = workspace.software
        self._known = known

    def gather(self) -> Provenance:
        """The complete provenance; a file of the training that is invalid is left out."""
        return self._known().over(self._said())

    def _said(self) -> Provenance:
        """The packages and devices that the training names; its code is not its own to tell."""
        try:
            said = Provenance.from_json(read_regular(self._file, at_most=MAX_BYTES))
        except FileNotFoundError:
            return Provenance()
        except (OSError, ProtocolError, UnsafeFileError) as error:
            logger.warning("%s is ignored: %s", self._file.name, error)
            return Provenance()
        return Provenance(python=said.python, packages=said.packages, devices=said.devices)
