"""Resources that a runner creates for a segment outside of its task: pods, secrets, containers.

A segment is one uninterrupted execution of a trial. If its task crashes, the resources remain; the
reconciler finds and deletes them through the protocol in this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol


class ResourcesUnavailableError(Exception):
    """The resources of a runner cannot be listed; the message gives the cause."""


@dataclass(frozen=True, kw_only=True)
class RunnerResource:
    """A resource, such as a pod, that a runner has created for one segment.

    Attributes:
        kind: Kind of the resource: ``pod``, ``secret`` or ``container``.
        name: Name of the resource, by which it is deleted.
        namespace: Namespace of the resource.
        segment: Id of the segment for which the resource was created.
        seconds: Seconds since the resource was created.
        is_training: Whether the training runs in the resource. An open segment without such a
            resource is lost. Other resources, such as secrets, are deleted only after the resource
            of their training is gone.
        is_leaving: Whether the resource is being deleted already.
        is_lost: Whether the machine of the resource does not answer, so that the resource must be
            deleted by force.
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
    """The resources of one runner in all namespaces that could be listed.

    Attributes:
        default_namespace: Namespace of the resources of studies that name no namespace.
        namespaces: The namespaces that could be listed. Segments in other namespaces are never
            considered lost.
        resources: The resources in these namespaces.
        training_kind: The kind of resource in which a training runs, such as ``pod``.
    """

    default_namespace: str
    training_kind: str
    namespaces: frozenset[str] = frozenset()
    resources: Sequence[RunnerResource] = ()

    @property
    def segments(self) -> set[str]:
        """Ids of the segments that have a resource."""
        return {resource.segment for resource in self.resources}

    @cached_property
    def trainings(self) -> set[str]:
        """Ids of the segments that have a resource in which the training runs."""
        return {resource.segment for resource in self.resources if resource.is_training}


class RunnerResources(Protocol):
    """Lists and deletes the resources of one runner."""

    @property
    def notes(self) -> Sequence[str]:
        """Sentences that name the resources which `look` could not list, with the cause."""
        ...

    def look(self, namespaces: Sequence[str]) -> ResourceList:
        """Lists the resources in the default namespace and in the given namespaces.

        A namespace that cannot be listed adds a note instead of raising an error. The given
        namespaces are those of all studies, whatever their runner; a runner without namespaces
        ignores them.
        """
        ...

    def delete(self, kind: str, name: str, namespace: str, *, is_forced: bool) -> None:
        """Deletes a resource, and does nothing if the resource does not exist any more.

        Args:
            kind: Kind of the resource, as in `RunnerResource`.
            name: Name of the resource.
            namespace: Namespace of the resource.
            is_forced: Whether to delete at once, without waiting for the machine of the resource
                to confirm or for the training to save a checkpoint.
        """
        ...
