"""Finds and repairs leftovers of crashes by comparing the ledger, Airflow and the runners.

A leftover is a record or a resource without its counterpart, such as a pod whose segment has ended
or an open segment without a pod. A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hpo_ops.client._gateway_client import GatewayClient
from hpo_ops.core.leftovers import Finding, LedgerStudy, Repair, RunState, find_leftovers
from hpo_ops.core.runner_resources import RunnerResources
from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class Repaired(Message):
    """The result of one repair.

    Attributes:
        finding: The leftover and how it is to be repaired.
        problem: Why the leftover was not repaired; empty if it was repaired.
    """

    finding: Finding
    problem: str = ""


@dataclass(frozen=True)
class Reconciler:
    """Finds leftovers of crashes and repairs them.

    Attributes:
        gateway: Client of the gateway, through which the ledger is read and changed.
        run_state: Function that returns the state of a study's DAG run, or None if unknown.
        resources: Access to the resources (such as pods) of each reachable runner, by runner name.
        on_end: Function that is called with each study that a repair has marked as ended.
    """

    gateway: GatewayClient
    run_state: Callable[[LedgerStudy], RunState | None]
    resources: Mapping[str, RunnerResources] = field(default_factory=dict)
    on_end: Callable[[LedgerStudy], None] = lambda study: None
    _studies: dict[int, LedgerStudy] = field(default_factory=dict)

    def look(self) -> list[Finding]:
        """Finds studies, segments, leases and resources that a crash left behind, in repair order.

        The ledger is read last: otherwise a segment that ends in the meantime could be mistaken
        for an open segment whose pod is missing.
        """
        before = self.gateway.ledger_part()
        runs = {study.id: self.run_state(study) for study in before.studies}
        found = {name: access.look(before.namespaces) for name, access in self.resources.items()}
        segments = {segment for resources in found.values() for segment in resources.segments}
        ledger = self.gateway.ledger_part(sorted(segments))
        self._studies.update({study.id: study for study in ledger.studies})
        known = {study_id: run for study_id, run in runs.items() if run is not None}
        return find_leftovers(ledger, known, found)

    def repair(self, findings: Sequence[Finding], *, with_unknown: bool = False) -> list[Repaired]:
        """Repairs leftovers in order.

        A leftover is skipped if ending its study, or an earlier repair of its segment, failed.

        Args:
            findings: The leftovers that `look` returned.
            with_unknown: Whether to delete resources whose segments are not in the ledger, too.

        Returns:
            The result for each finding, in the same order.
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
        """Repairs one leftover; returns why it was not repaired, or an empty text if it was.

        Args:
            finding: The leftover.
            failed: Ids of the studies and segments whose repair has failed.
            with_unknown: Whether to delete resources whose segments are not in the ledger.
        """
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
                    return "the segment has sent a heartbeat meanwhile"
            case Repair.FREE_LEASE:
                self.gateway.free_leases(study_id)
            case Repair.DELETE_RESOURCE:
                self._delete(finding)
        return ""

    def _delete(self, finding: Finding) -> None:
        access = self.resources.get(finding.runner or "")
        if access is None:
            raise ValueError(f"the resources of the runner {finding.runner} cannot be reached")
        access.delete(
            finding.kind,
            finding.name or "",
            finding.namespace or "",
            is_forced=finding.is_forced,
        )
