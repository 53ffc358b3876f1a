"""The types by which services check whether a caller may read or change a resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class OwnedResource(Protocol):
    """A study, or a job, segment or lease of a study, with the facts that rights depend on."""

    @property
    def dag_id(self) -> str:
        """The id of the study's DAG."""
        ...

    @property
    def run_id(self) -> str:
        """The id of the study's DAG run."""
        ...

    @property
    def owner(self) -> str | None:
        """The person who triggered the DAG run; None if nobody did, as for a scheduled run."""
        ...


Right = Callable[[OwnedResource], bool]
"""Checks whether a caller has a certain right (to read, or to change) on a resource."""
