"""The reconciler between a ledger, an Airflow and a cluster in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from hpo_ops.client import GatewayClient
from hpo_ops.client.reconciler import Reconciler
from hpo_ops.core.leftovers import LedgerPart, LedgerSegment, LedgerStudy, RunState, StrayLease
from hpo_ops.runners.kubernetes._cluster_leftovers import Cluster
from tests.runners.fake_kubernetes import FakeKubernetes
from tests.studies import study_data

STUDY = LedgerStudy(
    id=1, key="digits/run", dag_id="digits", run_id="run", state="running", seconds=3600
)


class FakeLedger:
    """The gateway's routes for the reconciler, on a ledger in memory.

    Attributes:
        alive: Segments that send a heartbeat just before they are given up.
    """

    def __init__(self, *studies: LedgerStudy) -> None:
        self.part = LedgerPart(studies=list(studies))
        self.alive: set[str] = set()
        self.calls: list[tuple[Any, ...]] = []

    def add(self, segment: str, **changes: Any) -> None:
        values: dict[str, Any] = {
            "study_id": 1,
            "study": "digits/run",
            "study_state": "running",
            "trial": 0,
            "runner": "kubernetes",
            "seconds": 3600.0,
        }
        self.part.segments.append(LedgerSegment(id=segment, **{**values, **changes}))

    def config(self, study_id: int) -> dict[str, Any]:
        return study_data()

    def ledger_part(self, segments: Sequence[str] = ()) -> LedgerPart:
        known = [
            item
            for item in self.part.segments
            if item.ended_seconds is None or item.id in segments
        ]
        return replace(self.part, segments=known)

    def close_study(self, study_id: int, reason: str) -> None:
        self.calls.append(("close", study_id, reason))

    def lose_segment(self, study_id: int, segment: str, reason: str) -> bool:
        self.calls.append(("lose", study_id, segment))
        return segment not in self.alive

    def free_leases(self, study_id: int) -> list[str]:
        self.calls.append(("free", study_id))
        return []


def reconciler(
    ledger: FakeLedger,
    kubernetes: FakeKubernetes | None = None,
    run: RunState | None = RunState.GOING,
    **options: Any,
) -> Reconciler:
    resources = {"kubernetes": Cluster(kubernetes, "default")} if kubernetes else {}
    return Reconciler(cast(GatewayClient, ledger), lambda study: run, resources, **options)


def problems(doctor: Reconciler, **options: Any) -> list[str]:
    return [item.problem for item in doctor.repair(doctor.look(), **options)]


def cluster_with(*segments: str) -> FakeKubernetes:
    kubernetes = FakeKubernetes()
    for segment in segments:
        kubernetes.add_pod(f"pod-{segment}", segment)
    return kubernetes


def test_nothing_is_done_where_all_is_well() -> None:
    ledger, kubernetes = FakeLedger(STUDY), cluster_with("s")
    ledger.add("s", has_lease=True)
    assert problems(reconciler(ledger, kubernetes)) == []
    assert ledger.calls == []
    assert len(kubernetes.pods) == 1


def test_pods_of_segments_that_are_over_are_deleted() -> None:
    ledger, kubernetes = FakeLedger(), cluster_with("s", "t")
    ledger.add("s", ended_seconds=3600.0)
    ledger.add("t", ended_seconds=5.0)
    assert problems(reconciler(ledger, kubernetes)) == [""]
    assert [name for _, name in kubernetes.pods] == ["pod-t"]


def test_pods_that_nobody_knows_are_deleted_when_that_is_wanted_only() -> None:
    ledger, kubernetes = FakeLedger(), cluster_with("s")
    (problem,) = problems(reconciler(ledger, kubernetes))
    assert problem == "left alone: it may belong to another installation"
    assert kubernetes.pods
    assert problems(reconciler(ledger, kubernetes), with_unknown=True) == [""]
    assert not kubernetes.pods


def test_a_study_whose_run_is_gone_is_closed_with_its_pods() -> None:
    ledger, kubernetes = FakeLedger(STUDY), cluster_with("s")
    ledger.add("s", has_lease=True)
    closed: list[LedgerStudy] = []
    doctor = reconciler(ledger, kubernetes, RunState.MISSING, on_end=closed.append)
    assert problems(doctor) == ["", ""]
    assert ledger.calls == [("close", 1, "its DAG run does not exist any more")]
    assert closed == [STUDY]
    assert not kubernetes.pods


def test_a_run_that_cannot_be_seen_is_left_alone() -> None:
    assert reconciler(FakeLedger(STUDY), run=None).look() == []


def test_pods_stay_where_their_study_could_not_be_closed() -> None:
    class Broken(FakeLedger):
        def close_study(self, study_id: int, reason: str) -> None:
            raise ConnectionError("the gateway is away")

    ledger, kubernetes = Broken(STUDY), cluster_with("s")
    ledger.add("s", has_lease=True)
    assert problems(reconciler(ledger, kubernetes, RunState.FAILED)) == [
        "ConnectionError: the gateway is away",
        "waits for what it depends on",
    ]
    assert kubernetes.pods


def test_who_has_no_right_is_told_so() -> None:
    ledger, kubernetes = FakeLedger(replace(STUDY, may_edit=False)), cluster_with("s")
    ledger.add("s", has_lease=True)
    assert problems(reconciler(ledger, kubernetes, RunState.MISSING)) == [
        "no right to change this study",
        "waits for what it depends on",
    ]
    assert ledger.calls == []


def test_a_segment_that_has_lost_its_pod_is_finished_and_its_secret_deleted() -> None:
    ledger, kubernetes = FakeLedger(STUDY), FakeKubernetes()
    ledger.add("s")
    kubernetes.add_secret("x", "s")
    assert problems(reconciler(ledger, kubernetes)) == ["", ""]
    assert ledger.calls == [("lose", 1, "s")]
    assert not kubernetes.secrets


def test_a_heartbeat_saves_a_segment_and_its_secret() -> None:
    ledger, kubernetes = FakeLedger(STUDY), FakeKubernetes()
    ledger.add("s")
    ledger.alive.add("s")
    kubernetes.add_secret("x", "s")
    assert problems(reconciler(ledger, kubernetes)) == [
        "the segment has sent a heartbeat meanwhile",
        "waits for what it depends on",
    ]
    assert kubernetes.secrets


def test_stray_leases_are_freed() -> None:
    ledger = FakeLedger(STUDY)
    ledger.part.leases.append(StrayLease(segment="s", study_id=1, study="digits/run", trial=0))
    assert problems(reconciler(ledger)) == [""]
    assert ledger.calls == [("free", 1)]


def test_pods_are_looked_for_where_studies_have_had_them() -> None:
    ledger, kubernetes = FakeLedger(), FakeKubernetes()
    ledger.add("s", ended_seconds=3600.0, namespace="far")
    ledger.part.namespaces.append("far")
    kubernetes.add_pod("p", "s", namespace="far")
    assert problems(reconciler(ledger, kubernetes)) == [""]
    assert not kubernetes.pods
