"""What was left behind: ledger, Airflow and cluster compared, and how to put it right.

Nothing here looks or acts. `find_leftovers` is given what each of the three says and returns what
disagrees. It errs on the side of leaving alone: what could not be seen is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Self

from hpo_ops.protocol import Message

YOUNG_SECONDS = 60.0
"""What is younger than this is still being made, and what ended so recently still being put away.

The operator creates a pod seconds after its segment, and deletes it seconds after its end.
"""
SECRET_SECONDS = 600.0
"""A secret is made just before its pod; a try that was cut short between the two comes again."""
ENDED = "ended"
"""The state of a study that is closed."""
POD_RUNNER = "kubernetes"


class RunState(StrEnum):
    """What Airflow says of a DAG run."""

    GOING = "goes on"
    SUCCESS = "has ended well"
    FAILED = "has failed"
    MISSING = "does not exist any more"

    @classmethod
    def of(cls, state: str | None) -> RunState:
        """Airflow's own word; None where it knows no such run."""
        known = {None: cls.MISSING, "success": cls.SUCCESS, "failed": cls.FAILED}
        return known.get(state, cls.GOING)


@dataclass(frozen=True, kw_only=True)
class LedgerStudy(Message):
    """A study that the ledger has not closed.

    Attributes:
        key: Its name and its DAG run, for people.
        seconds: Since it was entered.
        may_edit: Whether who asks may repair it.
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
    """A segment that is open, or that has a pod.

    Attributes:
        study: Key of its study.
        study_state: State of its study.
        runner: Where it runs.
        namespace: Of its pod; None for the cluster connection's own.
        seconds: Since it started.
        ended_seconds: Since it ended; None while it is open.
        has_lease: Whether someone has given a sign of life within the time of a lease.
        may_edit: Whether who asks may repair it.
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
    """What the ledger says.

    Attributes:
        studies: Those that are not closed.
        segments: The open ones, and those that were asked about.
        leases: Leases of segments that are over.
        namespaces: Where studies have had pods besides the cluster connection's own namespace.
        hidden: Segments that were asked about and are not for the eyes of who asks.
    """

    studies: list[LedgerStudy] = field(default_factory=list)
    segments: list[LedgerSegment] = field(default_factory=list)
    leases: list[StrayLease] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        values: dict[str, Any] = dict(data) if isinstance(data, dict) else {}
        parts: dict[str, type[Message]] = {
            "studies": LedgerStudy,
            "segments": LedgerSegment,
            "leases": StrayLease,
        }
        for name, kind in parts.items():
            values[name] = [kind.from_dict(item) for item in values.get(name, ())]
        return super().from_dict(values)


@dataclass(frozen=True, kw_only=True)
class LivePod:
    """A pod of a segment.

    Attributes:
        seconds: Since it was created.
        is_leaving: It was told to go.
        is_lost: It was told to go and its node does not answer.
    """

    name: str
    namespace: str
    segment: str
    seconds: float
    is_leaving: bool = False
    is_lost: bool = False


@dataclass(frozen=True, kw_only=True)
class LiveSecret:
    """A secret of a segment."""

    name: str
    namespace: str
    segment: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ClusterPart:
    """What the cluster says.

    Attributes:
        default_namespace: Where the pods of studies are that name no namespace.
        namespaces: Those that could be looked at.
    """

    default_namespace: str
    namespaces: frozenset[str] = frozenset()
    pods: Sequence[LivePod] = ()
    secrets: Sequence[LiveSecret] = ()

    @property
    def segments(self) -> set[str]:
        """The segments that have something there."""
        return {pod.segment for pod in self.pods} | {secret.segment for secret in self.secrets}


class Repair(StrEnum):
    """How to put something right."""

    END_STUDY = "end study"
    FINISH_SEGMENT = "finish segment as preempted"
    FREE_LEASE = "free lease"
    DELETE_POD = "delete pod"
    DELETE_SECRET = "delete secret"  # noqa: S105, what is done to one


@dataclass(frozen=True, kw_only=True)
class Finding(Message):
    """Something that was left behind.

    Attributes:
        text: What is wrong, in a sentence.
        repair: How to put it right.
        reason: What the ledger is to remember of it.
        study_id: The study that it is of, where it is known.
        segment: The segment that it is of.
        name: Name of the pod or the secret.
        namespace: Its namespace.
        is_forced: Whether the pod is to be deleted without waiting for its node.
        is_unknown: Whether the ledger has never heard of it: it may be someone else's.
        may_repair: Whether who asks has the right to.
    """

    text: str
    repair: Repair
    reason: str = ""
    study_id: int | None = None
    segment: str | None = None
    name: str | None = None
    namespace: str | None = None
    is_forced: bool = False
    is_unknown: bool = False
    may_repair: bool = True


def find_leftovers(
    ledger: LedgerPart, runs: Mapping[int, RunState], cluster: ClusterPart | None
) -> list[Finding]:
    """What disagrees, in the order in which it is to be repaired: the ledger, then the cluster.

    The ledger must have been read last: what ends meanwhile has then ended for all three.

    Args:
        ledger: What the ledger says; asked about every segment that has a pod or a secret.
        runs: States of DAG runs by the ids of their studies; one that is not there is unknown.
        cluster: What the cluster says; None where nobody could look.
    """
    return list(_Comparison(ledger, runs, cluster).findings())


@dataclass(frozen=True)
class _Comparison:
    ledger: LedgerPart
    runs: Mapping[int, RunState]
    cluster: ClusterPart | None
    over: set[str] = field(default_factory=set)
    """Segments that are open and end by what was found so far."""

    @cached_property
    def segments(self) -> dict[str, LedgerSegment]:
        return {segment.id: segment for segment in self.ledger.segments}

    def findings(self) -> Iterator[Finding]:
        yield from self._studies()
        yield from self._segments()
        yield from self._leases()
        if self.cluster is not None:
            yield from self._pods(self.cluster)
            yield from self._secrets(self.cluster)

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
            elif self._has_lost_its_pod(segment):
                why = "it has no pod, and its lease has expired"
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

    def _has_lost_its_pod(self, segment: LedgerSegment) -> bool:
        if self.cluster is None or segment.runner != POD_RUNNER or segment.has_lease:
            return False
        namespace = segment.namespace or self.cluster.default_namespace
        has_pod = any(pod.segment == segment.id for pod in self.cluster.pods)
        was_seen = namespace in self.cluster.namespaces
        return was_seen and not has_pod and segment.seconds >= YOUNG_SECONDS

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

    def _pods(self, cluster: ClusterPart) -> Iterator[Finding]:
        for pod in cluster.pods:
            is_going = pod.is_leaving and not pod.is_lost
            if pod.seconds < YOUNG_SECONDS or is_going:
                continue
            if why := self._why_unwanted(pod.segment):
                yield self._in_cluster(pod, Repair.DELETE_POD, why, is_forced=pod.is_lost)

    def _secrets(self, cluster: ClusterPart) -> Iterator[Finding]:
        have_pods = {pod.segment for pod in cluster.pods}
        for secret in cluster.secrets:
            # A secret goes with its pod.
            if secret.seconds < SECRET_SECONDS or secret.segment in have_pods:
                continue
            if why := self._why_unwanted(secret.segment):
                yield self._in_cluster(secret, Repair.DELETE_SECRET, why)

    def _why_unwanted(self, segment_id: str) -> str | None:
        """Why a segment needs nothing in the cluster any more; None where it may."""
        segment = self.segments.get(segment_id)
        if segment is None:
            is_hidden = segment_id in self.ledger.hidden
            return None if is_hidden else "the ledger has never heard of it"
        if segment_id in self.over:
            return "its segment ends now"
        if segment.ended_seconds is not None and segment.ended_seconds >= YOUNG_SECONDS:
            return "its segment is over"
        return None

    def _in_cluster(
        self, found: LivePod | LiveSecret, repair: Repair, why: str, *, is_forced: bool = False
    ) -> Finding:
        segment = self.segments.get(found.segment)
        kind = "pod" if repair is Repair.DELETE_POD else "secret"
        of = f" of {segment.name}" if segment else ""
        there = "exists" if kind == "pod" else "exists without a pod"
        return Finding(
            text=f"{kind} {found.name}{of} in {found.namespace} {there}, but {why}",
            repair=repair,
            study_id=segment.study_id if segment else None,
            segment=found.segment,
            name=found.name,
            namespace=found.namespace,
            is_forced=is_forced,
            is_unknown=segment is None,
        )
