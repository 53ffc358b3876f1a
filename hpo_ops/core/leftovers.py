"""Finds leftovers of crashes by comparing the ledger, Airflow and the runners' resources.

A leftover is, for example, a resource without an open segment (one uninterrupted execution of a
trial), or an open segment without its resource. This module does no I/O: `find_leftovers` receives
the state of all three systems and returns the leftovers, each with its repair. Resources and runs
whose state is unknown are never leftovers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from hpo_ops.core.runner_resources import ResourceList, RunnerResource
from hpo_ops.protocol import Message

YOUNG_SECONDS = 60.0
"""Age in seconds below which nothing is a leftover: a task creates a pod seconds after the segment
starts, and deletes the pod seconds after the segment ends."""
ACCESSORY_SECONDS = 600.0
"""Age in seconds below which accessory resources, such as secrets, are no leftovers: they are
created before the pod of the training, and a task that crashes in between is retried."""
ENDED = "ended"
"""The ledger's state of a closed study."""


class RunState(StrEnum):
    """The possible states of a study's DAG run: going on, succeeded, failed or missing."""

    GOING = "goes on"
    SUCCESS = "has ended well"
    FAILED = "has failed"
    MISSING = "does not exist any more"

    @classmethod
    def of(cls, state: str | None) -> RunState:
        """Converts Airflow's name of a DAG run's state; None means that the run does not exist."""
        known = {None: cls.MISSING, "success": cls.SUCCESS, "failed": cls.FAILED}
        return known.get(state, cls.GOING)


@dataclass(frozen=True, kw_only=True)
class LedgerStudy(Message):
    """A study that the ledger has not closed.

    Attributes:
        key: Display name of the study, with its DAG run.
        seconds: Seconds since the study was recorded in the ledger.
        may_edit: Whether the user who looks for leftovers may repair the study.
    """

    id: int
    key: str
    dag_id: str
    run_id: str
    state: str
    seconds: float
    may_edit: bool = True


@dataclass(frozen=True, kw_only=True)
class LedgerSegment(Message):
    """A segment that is open in the ledger, or for which a runner still has resources.

    Attributes:
        study: Key of the segment's study.
        study_state: State of the segment's study.
        runner: Name of the segment's runner.
        namespace: Namespace of the segment's resources; None for the runner's default.
        seconds: Seconds since the segment started.
        ended_seconds: Seconds since the segment ended; None while the segment is open.
        has_lease: Whether the segment holds an unexpired lease, which heartbeats extend.
        may_edit: Whether the user who looks for leftovers may repair the segment.
    """

    id: str
    study_id: int
    study: str
    study_state: str
    trial: int
    runner: str
    namespace: str | None = None
    seconds: float
    ended_seconds: float | None = None
    has_lease: bool = False
    may_edit: bool = True

    @property
    def name(self) -> str:
        return f"trial {self.trial} of {self.study}"


@dataclass(frozen=True, kw_only=True)
class StrayLease(Message):
    """A lease (units reserved for a segment) that was not released when its segment ended."""

    segment: str
    study_id: int
    study: str
    trial: int
    may_edit: bool = True


@dataclass(frozen=True, kw_only=True)
class LedgerPart(Message):
    """The ledger's data for `find_leftovers`, as far as the requesting user may read it.

    Attributes:
        studies: The studies that are not closed.
        segments: The open segments, and the segments whose ids were requested since they
            have resources.
        leases: Leases of segments that have ended or do not exist.
        namespaces: Namespaces that studies declare for their resources.
        hidden: Ids of segments that the user may not read; unless the user is the operator, also
            requested ids that the ledger does not have.
    """

    studies: list[LedgerStudy] = field(default_factory=list)
    segments: list[LedgerSegment] = field(default_factory=list)
    leases: list[StrayLease] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)


class Repair(StrEnum):
    """The ways to repair a leftover: end study, finish segment, free lease, delete resource."""

    END_STUDY = "end study"
    FINISH_SEGMENT = "finish segment as preempted"
    FREE_LEASE = "free lease"
    DELETE_RESOURCE = "delete"


@dataclass(frozen=True, kw_only=True)
class Finding(Message):
    """One leftover and its repair.

    Attributes:
        text: Sentence that describes the leftover.
        repair: The way to repair the leftover.
        reason: Reason that the ledger records for ending the study or segment.
        study_id: Id of the leftover's study; None if it is unknown.
        segment: Id of the leftover's segment; None for a study.
        runner: Runner of the resource; None if the leftover is not a resource.
        kind: Kind of the resource, such as ``pod``.
        name: Name of the resource.
        namespace: Namespace of the resource.
        is_forced: Whether the resource is deleted without waiting for its machine to confirm.
        is_unknown: Whether the ledger does not have the resource's segment, so that another
            platform may own the resource.
        may_repair: Whether the user who looks for leftovers may repair the leftover.
    """

    text: str
    repair: Repair
    reason: str = ""
    study_id: int | None = None
    segment: str | None = None
    runner: str | None = None
    kind: str = ""
    name: str | None = None
    namespace: str | None = None
    is_forced: bool = False
    is_unknown: bool = False
    may_repair: bool = True

    @property
    def repair_text(self) -> str:
        """Display text of the repair, such as ``delete pod``."""
        return f"{self.repair.value} {self.kind}".strip()


def find_leftovers(
    ledger: LedgerPart, runs: Mapping[int, RunState], resources: Mapping[str, ResourceList]
) -> list[Finding]:
    """Returns all leftovers, in the order of repair: ledger entries first, then resources.

    The caller must read the ledger last. Otherwise a segment that ends while the three systems are
    read may look open in the ledger but without a resource.

    Args:
        ledger: The ledger's data, including every segment that has a resource.
        runs: States of DAG runs by the ids of their studies; a study without a state is skipped.
        resources: The resources of each runner, by the runner's name; a runner whose resources
            could not be listed is omitted.
    """
    return list(_Comparison(ledger, runs, resources).findings())


@dataclass(frozen=True)
class _Comparison:
    ledger: LedgerPart
    runs: Mapping[int, RunState]
    resources: Mapping[str, ResourceList]
    over: set[str] = field(default_factory=set)
    """Ids of open segments that the repairs found so far will end."""

    @cached_property
    def segments(self) -> dict[str, LedgerSegment]:
        return {segment.id: segment for segment in self.ledger.segments}

    def findings(self) -> Iterator[Finding]:
        yield from self._studies()
        yield from self._segments()
        yield from self._leases()
        for runner, found in self.resources.items():
            yield from self._of_runner(runner, found)

    def _studies(self) -> Iterator[Finding]:
        for study in self.ledger.studies:
            run = self.runs.get(study.id, RunState.GOING)
            if run is RunState.GOING or study.seconds < YOUNG_SECONDS:
                continue
            self.over.update(
                segment.id for segment in self.ledger.segments if segment.study_id == study.id
            )
            yield Finding(
                text=f"study {study.key} is {study.state}, but its DAG run {run.value}",
                repair=Repair.END_STUDY,
                reason=f"its DAG run {run.value}",
                study_id=study.id,
                may_repair=study.may_edit,
            )

    def _segments(self) -> Iterator[Finding]:
        for segment in self.ledger.segments:
            if segment.ended_seconds is not None or segment.id in self.over:
                continue
            if segment.study_state == ENDED:
                why = "its study is closed"
            elif (kind := self._lost_training(segment)) is not None:
                why = f"it has no {kind}, and its lease has expired"
            else:
                continue
            self.over.add(segment.id)
            yield Finding(
                text=f"{segment.name} has an open segment, but {why}",
                repair=Repair.FINISH_SEGMENT,
                reason=why,
                study_id=segment.study_id,
                segment=segment.id,
                may_repair=segment.may_edit,
            )

    def _lost_training(self, segment: LedgerSegment) -> str | None:
        """Returns the kind of a segment's lost resource, or None if the resource may exist."""
        found = self.resources.get(segment.runner)
        if found is None or segment.has_lease or segment.seconds < YOUNG_SECONDS:
            return None
        if (segment.namespace or found.default_namespace) not in found.namespaces:
            return None
        return None if segment.id in found.trainings else found.training_kind

    def _leases(self) -> Iterator[Finding]:
        for lease in self.ledger.leases:
            yield Finding(
                text=f"trial {lease.trial} of {lease.study} holds a lease of a segment that is "
                "over",
                repair=Repair.FREE_LEASE,
                study_id=lease.study_id,
                segment=lease.segment,
                may_repair=lease.may_edit,
            )

    def _of_runner(self, runner: str, found: ResourceList) -> Iterator[Finding]:
        # An accessory, such as a secret, goes with its training.
        order = sorted(found.resources, key=lambda item: not item.is_training)
        for resource in order:
            if resource.is_training:
                is_going = resource.is_leaving and not resource.is_lost
                is_judged = resource.seconds >= YOUNG_SECONDS and not is_going
            else:
                is_judged = (
                    resource.seconds >= ACCESSORY_SECONDS
                    and resource.segment not in found.trainings
                )
            if is_judged and (why := self._why_unwanted(resource.segment)):
                yield self._unwanted(runner, resource, why, found.training_kind)

    def _why_unwanted(self, segment_id: str) -> str | None:
        """Returns why the resources of a segment can be deleted, or None to keep them."""
        segment = self.segments.get(segment_id)
        if segment is None:
            is_hidden = segment_id in self.ledger.hidden
            return None if is_hidden else "the ledger has never heard of it"
        if segment_id in self.over:
            return "its segment ends now"
        if segment.ended_seconds is not None and segment.ended_seconds >= YOUNG_SECONDS:
            return "its segment is over"
        return None

    def _unwanted(
        self, runner: str, resource: RunnerResource, why: str, training_kind: str
    ) -> Finding:
        segment = self.segments.get(resource.segment)
        of = f" of {segment.name}" if segment else ""
        there = "exists" if resource.is_training else f"exists without a {training_kind}"
        return Finding(
            text=f"{resource.kind} {resource.name}{of} in {resource.namespace} {there}, but {why}",
            repair=Repair.DELETE_RESOURCE,
            study_id=segment.study_id if segment else None,
            segment=resource.segment,
            runner=runner,
            kind=resource.kind,
            name=resource.name,
            namespace=resource.namespace,
            is_forced=resource.is_lost,
            is_unknown=segment is None,
        )
