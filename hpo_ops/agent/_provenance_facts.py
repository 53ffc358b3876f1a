"""Gathers the provenance of a segment: its code, image, packages and hardware.

One part is known to the runner; the training writes the other part to a file in the workspace.
"""

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
    """Combines the runner's part of the provenance with the part that the training wrote.

    Args:
        workspace: The directory shared with the training.
        known: Returns the runner's part of the provenance; called by `gather`.
    """

    def __init__(self, workspace: Workspace, known: Callable[[], Provenance]) -> None:
        self._file = workspace.software
        self._known = known

    def gather(self) -> Provenance:
        """Returns the complete provenance; an invalid file of the training is ignored."""
        return self._known().over(self._said())

    def _said(self) -> Provenance:
        """Returns the part of the provenance that the training wrote: Python, packages, devices.

        It is empty if the file is missing or invalid. Other fields are ignored: for example, only
        the runner may declare the code's hash.
        """
        try:
            said = Provenance.from_json(read_regular(self._file, at_most=MAX_BYTES))
        except FileNotFoundError:
            return Provenance()
        except (OSError, ProtocolError, UnsafeFileError) as error:
            logger.warning("%s is ignored: %s", self._file.name, error)
            return Provenance()
        return Provenance(python=said.python, packages=said.packages, devices=said.devices)
