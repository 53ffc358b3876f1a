"""What services need to know of a caller's rights: which resources it may read or change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class OwnedResource(Protocol):
    """A study, or a job, segment or lease of one, with the facts on which rights depend."""

    @property
    def dag_id(self) -> str:
        """The DAG of the study."""
        ...

    @property
    def run_id(self) -> str:
        """The DAG run of the study."""
        ...

    @property
    def owner(self) -> str | None:
        """The person who triggered the DAG run; None if no person did, as for a schedule."""
        ...


Right = Callable[[OwnedResource], bool]
"""Whether a caller has a right, to read or to change, on a resource."""
