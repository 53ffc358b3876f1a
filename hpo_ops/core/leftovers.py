"""Leftovers of crashes: finds them by comparing the ledger, Airflow and the runners' resources.

Nothing here reads from or writes to any of the three. `find_leftovers` gets what each of them
reports and returns the disagreements, each with its repair. What could not be seen is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from hpo_ops.core.runner_resources import ResourceList, RunnerResource
from hpo_ops.protocol import Message

YOUNG_SECONDS = 60.0
"""Age below which nothing is judged: an operator creates a pod seconds after its segment, and
deletes it seconds after the segment's end."""
ACCESSORY_SECONDS = 600.0
"""Age below which resources other than trainings, such as secrets, are not judged: they are
created before their training, and a task that dies between the two is retried."""
ENDED = "ended"
"""The state of a study that is closed."""


class RunState(StrEnum):
    """The state of a DAG run, as far as leftovers depend on it."""

    GOING = "goes on"
    SUCCESS = "has ended well"
    FAILED = "has failed"
    MISSING = "does not exist any more"

    @classmethod
    def of(cls, state: str | None) -> RunState:
        """From Airflow's own name of a state; None where Airflow knows no such run."""
        known = {None: cls.MISSING, "success": cls.SUCCESS, "failed": cls.FAILED}
        return known.get(state, cls.GOING)


@dataclass(frozen=True, kw_only=True)
class LedgerStudy(Message):
    """A study that the ledger has not closed.

    Attributes:
        key: Its name and its DAG run, for people.
        seconds: Since it was entered.
        may_edit: Whether the caller may repair it.
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
    """A segment that is open, or that has resources of its runner.

    Attributes:
        study: Key of its study.
        study_state: State of its study.
        runner: Name of its runner.
        namespace: Namespace of its resources; None for the runner's default.
        seconds: Since it started.
        ended_seconds: Since it ended; None while it is open.
        has_lease: Whether it holds a lease that has not expired: heartbeats extend it.
        may_edit: Whether the caller may repair it.
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
    """A lease whose segment is over."""

    segment: str
    study_id: int
    study: str
    trial: int
    may_edit: bool = True


@dataclass(frozen=True, kw_only=True)
class LedgerPart(Message):
    """The ledger's part of the comparison.

    Attributes:
        studies: Those that are not closed.
        segments: The open ones, and those that were asked about.
        leases: Leases of segments that are over.
        namespaces: Namespaces that studies have named for their resources.
        hidden: Segments that were asked about and that the caller may not see.
    """

    studies: list[LedgerStudy] = field(default_factory=list)
    segments: list[LedgerSegment] = field(default_factory=list)
    leases: list[StrayLease] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)


class Repair(StrEnum):
    """How a leftover is repaired."""

    END_STUDY = "end study"
    FINISH_SEGMENT = "finish segment as preempted"
    FREE_LEASE = "free lease"
    DELETE_RESOURCE = "delete"


@dataclass(frozen=True, kw_only=True)
class Finding(Message):
    """One leftover and its repair.

    Attributes:
        text: What is wrong, in a sentence.
        repair: How it is repaired.
        reason: Why, as the ledger records it.
        study_id: The study that the leftover belongs to, where it is known.
        segment: The segment that it belongs to.
        runner: The runner of the resource.
        kind: What kind of resource it is, such as ``pod``.
        name: Name of the resource.
        namespace: Namespace of the resource.
        is_forced: Whether the resource is to be deleted without waiting for its machine.
        is_unknown: Whether the ledger has no such segment: another platform may own the resource.
        may_repair: Whether the caller has the right to repair it.
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
        """The repair, for people: such as ``delete pod``."""
        return f"{self.repair.value} {self.kind}".strip()


def find_leftovers(
    ledger: LedgerPart, runs: Mapping[int, RunState], resources: Mapping[str, ResourceList]
) -> list[Finding]:
    """The leftovers in the order in which they are to be repaired: the ledger's, then resources.

    The ledger must be read last: what ends while the three are read has then ended in all.

    Args:
        ledger: The ledger's part, with every segment that has a resource.
        runs: States of DAG runs by the ids of their studies; a missing state is unknown.
        resources: The resources of each runner that could be seen, by its name.
    """
    return list(_Comparison(ledger, runs, resources).findings())


@dataclass(frozen=True)
class _Comparison:
    ledger: LedgerPart
    runs: Mapping[int, RunState]
    resources: Mapping[str, ResourceList]
    over: set[str] = field(default_factory=set)
    """Open segments that the findings so far will end."""

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
        """The kind of resource that a segment should have and has not; None where all is well."""
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
        """Why a segment needs no resources any more; None where it may need them."""
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
