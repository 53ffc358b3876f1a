"""The reconciler: asks ledger, Airflow and cluster, compares, and repairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hpo_ops.client import GatewayClient
from hpo_ops.core.leftovers import Finding, LedgerStudy, Repair, RunState, find_leftovers
from hpo_ops.protocol import Message
from hpo_ops.runners.kubernetes.cluster_leftovers import Cluster


@dataclass(frozen=True, kw_only=True)
class Repaired(Message):
    """What became of a finding; `problem` is empty where it was put right."""

    finding: Finding
    problem: str = ""


@dataclass(frozen=True)
class Reconciler:
    """Finds what was left behind, and puts it right.

    Attributes:
        gateway: For the ledger.
        run_state: The state of a study's DAG run; None where it cannot be known.
        cluster: Where trials are pods; None where it cannot be reached.
        on_end: Called when a study was closed.
    """

    gateway: GatewayClient
    run_state: Callable[[LedgerStudy], RunState | None]
    cluster: Cluster | None = None
    on_end: Callable[[LedgerStudy], None] = lambda study: None
    _studies: dict[int, LedgerStudy] = field(default_factory=dict)

    def look(self) -> list[Finding]:
        """What was left behind. The ledger is read last: see `find_leftovers`."""
        before = self.gateway.ledger_part()
        runs = {study.id: self.run_state(study) for study in before.studies}
        there = self.cluster.look(before.namespaces) if self.cluster else None
        ledger = self.gateway.ledger_part(sorted(there.segments) if there else [])
        self._studies.update({study.id: study for study in ledger.studies})
        known = {study_id: run for study_id, run in runs.items() if run is not None}
        return find_leftovers(ledger, known, there)

    def repair(self, findings: Sequence[Finding], *, with_unknown: bool = False) -> list[Repaired]:
        """Puts right what can be, in order; what depends on a repair that failed is left alone.

        Args:
            findings: What `look` found.
            with_unknown: Also delete what the ledger has never heard of.
        """
        done: list[Repaired] = []
        failed: set[int | str] = set()
        for finding in findings:
            problem = self._problem_with(finding, failed, with_unknown=with_unknown)
            if problem and finding.repair is Repair.END_STUDY and finding.study_id is not None:
                failed.add(finding.study_id)
            elif problem and finding.segment is not None:
                failed.add(finding.segment)
            done.append(Repaired(finding=finding, problem=problem))
        return done

    def _problem_with(
        self, finding: Finding, failed: set[int | str], *, with_unknown: bool
    ) -> str:
        """Repairs one thing, and says why where it was not."""
        if finding.is_unknown and not with_unknown:
            return "left alone: it may belong to another installation"
        if not finding.may_repair:
            return "no right to change this study"
        if failed & {finding.study_id, finding.segment}:
            return "waits for what it depends on"
        try:
            return self._repair(finding)
        except Exception as error:  # noqa: BLE001, the others can still be repaired
            return f"{type(error).__name__}: {getattr(error, 'reason', None) or error}"

    def _repair(self, finding: Finding) -> str:
        study_id, segment = finding.study_id or 0, finding.segment or ""
        match finding.repair:
            case Repair.END_STUDY:
                self.gateway.close_study(study_id, finding.reason)
                if study := self._studies.get(study_id):
                    self.on_end(study)
            case Repair.FINISH_SEGMENT:
                if not self.gateway.lose_segment(study_id, segment, finding.reason):
                    return "it has shown signs of life meanwhile"
            case Repair.FREE_LEASE:
                self.gateway.free_leases(study_id)
            case Repair.DELETE_POD | Repair.DELETE_SECRET:
                self._delete(finding)
        return ""

    def _delete(self, finding: Finding) -> None:
        if self.cluster is None:
            raise ValueError("no cluster can be reached")
        name, namespace = finding.name or "", finding.namespace or ""
        if finding.repair is Repair.DELETE_POD:
            self.cluster.delete_pod(name, namespace, is_forced=finding.is_forced)
        else:
            self.cluster.delete_secret(name, namespace)
