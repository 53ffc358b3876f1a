"""Resources that a runner creates for a segment outside of its task: pods, secrets, containers.

They outlive the task when it dies. The reconciler finds and deletes them through this port.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol


class ResourcesUnavailableError(Exception):
    """The resources of a runner cannot be seen; the message says why."""


@dataclass(frozen=True, kw_only=True)
class RunnerResource:
    """Something that a runner has created for one segment.

    Attributes:
        kind: What it is, for people: ``pod``, ``secret``, ``container``.
        name: Its name, by which it is deleted.
        namespace: Where it is.
        segment: The segment that it was created for.
        seconds: Since it was created.
        is_training: Whether the training runs in it. A segment of the ledger that has none is
            lost. What is not a training (a secret) is deleted only once its training is gone.
        is_leaving: Whether it is being deleted already.
        is_lost: Whether its machine does not answer, so that it must be deleted by force.
    """

    kind: str
    name: str
    namespace: str
    segment: str
    seconds: float
    is_training: bool = True
    is_leaving: bool = False
    is_lost: bool = False


@dataclass(frozen=True, kw_only=True)
class ResourceList:
    """All resources of one runner that could be seen.

    Attributes:
        default_namespace: Where resources are whose study names no namespace.
        namespaces: The namespaces that could be looked at. A segment whose namespace is not
            among them is not judged.
        resources: What was found there.
        training_kind: The kind of resource that a training runs in, such as ``pod``.
    """

    default_namespace: str
    training_kind: str
    namespaces: frozenset[str] = frozenset()
    resources: Sequence[RunnerResource] = ()

    @property
    def segments(self) -> set[str]:
        """The segments that have a resource."""
        return {resource.segment for resource in self.resources}

    @cached_property
    def trainings(self) -> set[str]:
        """The segments whose training has a resource."""
        return {resource.segment for resource in self.resources if resource.is_training}


class RunnerResources(Protocol):
    """Access to the resources of one runner."""

    @property
    def notes(self) -> Sequence[str]:
        """What could not be seen, in sentences; complete after `look`."""
        ...

    def look(self, namespaces: Sequence[str]) -> ResourceList:
        """Lists the resources in the default namespace and in those given.

        A namespace that cannot be seen adds a note instead of raising. The namespaces are those of
        studies of all runners; a runner without namespaces ignores them.
        """
        ...

    def delete(self, kind: str, name: str, namespace: str, *, is_forced: bool) -> None:
        """Deletes a resource. One that is gone already is no error.

        Args:
            kind: As in `RunnerResource`.
            name: Its name.
            namespace: Its namespace.
            is_forced: Do not wait for its machine, nor for the training to save.
        """
        ...
