"""The gateway client that Airflow tasks and the CLI use."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpo_ops.client._gateway_errors import (
    GatewayBusyError,
    GatewayFailedError,
    GatewayUnreachableError,
)
from hpo_ops.client._next_action import NextAction
from hpo_ops.client._pool_messages import PoolSummary
from hpo_ops.client._recording_messages import ReportPage, SegmentSummary
from hpo_ops.client._round_messages import AbsorbedScores, CollectedRound, Round
from hpo_ops.client._segment_client import end_of_segment
from hpo_ops.client._segment_gateway import SegmentReceipt
from hpo_ops.client._study_handle import StudyHandle, StudyRequest
from hpo_ops.client._study_progress import Best, Progress, Retraining, StudyVerdict
from hpo_ops.client._trial_results import TrialDetail, TrialResult, TrialSummary
from hpo_ops.client.experiment_messages import Experiment
from hpo_ops.client.import_messages import Imported, ImportRequest
from hpo_ops.client.job_messages import JobStatus
from hpo_ops.client.transport import Token, Transport
from hpo_ops.core.leftovers import LedgerPart
from hpo_ops.protocol import Provenance, Report, SegmentResult

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 300.0
"""Seconds for which a request is repeated while the gateway does not answer.

Long enough for a restart of Airflow's api-server, which hosts the gateway.
"""
MAX_FAILURES = 4
"""Number of internal errors (HTTP 500) of the gateway after which a request is not repeated."""


class GatewayClient:
    """Sends the requests of Airflow tasks and of the CLI to the gateway.

    A request is repeated while the gateway does not answer, so that tasks survive a restart of
    the gateway.

    Args:
        url: URL of the gateway's server.
        token: A token, or a function that returns a token for each request.
        patience_seconds: Seconds for which a request is repeated before it fails.
        sleep: Function that waits for a number of seconds between two attempts.
    """

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url
        self._transport = Transport(url, token)
        self._patience_seconds = patience_seconds
        self._sleep = sleep

    def request(self, method: str, path: str, body: object = None, **query: Any) -> Any:
        """Sends an idempotent request, and repeats it while the gateway does not answer.

        Raises:
            GatewayUnreachableError: The gateway did not answer in time, or failed repeatedly.
            Exception: Any other error that `read_answer` raises.
        """
        give_up_at = time.monotonic() + self._patience_seconds
        pause, failures = 0.2, 0
        while True:
            try:
                return self._transport.request(method, path, body, **query)
            except GatewayUnreachableError as error:
                failures += isinstance(error, GatewayFailedError)
                if isinstance(error, GatewayBusyError):
                    pause = error.wait_seconds
                if time.monotonic() + pause > give_up_at or failures >= MAX_FAILURES:
                    raise
                logger.warning(
                    "the gateway does not answer, next try in %.1f s (%s)", pause, error
                )
                self._sleep(pause)
                pause = min(pause * 2, 5.0)

    # -- tasks -------------------------------------------------------------------------------

    def start_study(self, request: StudyRequest) -> StudyHandle:
        return StudyHandle.from_dict(self.request("POST", "/studies", request.to_dict()))

    def sample(self, study_id: int, round_number: int, *, rounds_left: int) -> Round:
        path = f"/studies/{study_id}/rounds/{round_number}"
        return Round.from_dict(self.request("POST", path, rounds_left=rounds_left))

    def collect(
        self, study_id: int, round_number: int, scores: Sequence[TrialResult]
    ) -> CollectedRound:
        path = f"/studies/{study_id}/rounds/{round_number}/scores"
        return CollectedRound.from_dict(
            self.request("POST", path, [score.to_dict() for score in scores])
        )

    def next_action(
        self,
        dag_id: str,
        run_id: str,
        trial: int,
        *,
        key: str,
        wait: float | None = None,
        task_group: str | None = None,
    ) -> NextAction:
        """Requests what a trial's task is to do next: run a segment, wait, or finish.

        Args:
            dag_id: Id of the task's DAG.
            run_id: Id of the task's DAG run.
            trial: Number of the trial.
            key: Idempotency key of the attempt: the same key returns the same segment again.
            wait: Seconds for which the gateway may delay its answer if the trial is the first in
                the queue; None for no delay.
            task_group: Task group of the study, if the DAG contains several studies.
        """
        where = {"dag_id": dag_id, "run_id": run_id, "task_group": task_group}
        return NextAction.from_dict(
            self.request("POST", f"/trials/{trial}/next_action", **where, key=key, wait=wait)
        )

    def lost(self, study_id: int, numbers: Sequence[int]) -> list[int]:
        """Returns the numbers of the given trials that the ledger still records as running.

        Args:
            study_id: Id of the study.
            numbers: Numbers of trials whose tasks have ended.
        """
        lost: list[int] = self.request("POST", f"/studies/{study_id}/lost", list(numbers))
        return lost

    def absorb(self, study_id: int, scores: Sequence[TrialResult]) -> AbsorbedScores:
        """Compares trial results received through XCom with the ledger.

        The gateway records in the ledger the results that are missing there.

        Args:
            study_id: Id of the study.
            scores: The trial results received through XCom.
        """
        body = [score.to_dict() for score in scores]
        return AbsorbedScores.from_dict(self.request("POST", f"/studies/{study_id}/scores", body))

    def abandon(self, study_id: int, numbers: Sequence[int]) -> list[int]:
        """Marks trials as failed if the ledger still records them as running.

        Args:
            study_id: Id of the study.
            numbers: Numbers of trials whose tasks have ended and will not be retried.

        Returns:
            The numbers of the trials that were marked as failed.
        """
        lost: list[int] = self.request("POST", f"/studies/{study_id}/abandon", list(numbers))
        return lost

    def retrain(self, study_id: int) -> Retraining:
        return Retraining.from_dict(self.request("POST", f"/studies/{study_id}/retraining"))

    def finish_segment(
        self,
        segment: str,
        result: SegmentResult,
        reports: Sequence[Report] = (),
        provenance: Provenance | None = None,
        *,
        is_fallback: bool = False,
    ) -> SegmentReceipt:
        """Reports how a segment (one uninterrupted execution of a trial) ended; idempotent.

        Args:
            segment: Id of the segment.
            result: How the segment ended.
            reports: Reports that the segment's agent could not deliver.
            provenance: The code, packages and hardware that the segment was trained with.
            is_fallback: Whether the result was only derived from the state of the platform, and
                is to be ignored if the agent itself has reported an end.

        Returns:
            The segment's result on record, and the trial's result if the trial has finished.
        """
        body = {**end_of_segment(result, reports, provenance), "is_fallback": is_fallback}
        return SegmentReceipt.from_dict(self.request("POST", f"/segments/{segment}/result", body))

    def verdict(self, study_id: int) -> StudyVerdict:
        return StudyVerdict.from_dict(self.request("POST", f"/studies/{study_id}/verdict"))

    def end_study(self, study_id: int, result: dict[str, Any]) -> None:
        self.request("POST", f"/studies/{study_id}/end", result)

    # -- people ------------------------------------------------------------------------------

    def studies(self, limit: int = 20) -> list[Progress]:
        return [Progress.from_dict(item) for item in self.request("GET", "/studies", limit=limit)]

    def find(self, name: str, run_id: str | None = None, *, dag_id: str | None = None) -> Progress:
        """Finds the newest study with a name among the studies that the caller may read.

        Args:
            name: Name of the study.
            run_id: Id of the DAG run to search; None for all DAG runs.
            dag_id: Id of the DAG to search; None for all DAGs.

        Raises:
            LookupError: There is no such study.
        """
        where = {"run_id": run_id, "dag_id": dag_id}
        return Progress.from_dict(self.request("GET", f"/names/{name}", **where))

    def progress(self, study_id: int) -> Progress:
        return Progress.from_dict(self.request("GET", f"/studies/{study_id}"))

    def experiment(self, study_id: int) -> Experiment:
        return Experiment.from_dict(self.request("GET", f"/studies/{study_id}/experiment"))

    def trials(self, study_id: int) -> list[TrialSummary]:
        answer = self.request("GET", f"/studies/{study_id}/trials")
        return [TrialSummary.from_dict(item) for item in answer]

    def trial(self, study_id: int, trial: int) -> TrialDetail:
        return TrialDetail.from_dict(self.request("GET", f"/studies/{study_id}/trials/{trial}"))

    def curve(self, study_id: int, trial: int) -> list[Report]:
        answer = self.request("GET", f"/studies/{study_id}/trials/{trial}/reports")
        return [Report.from_dict(item) for item in answer]

    def best(self, study_id: int) -> Best | None:
        answer = self.request("GET", f"/studies/{study_id}/best")
        return Best.from_dict(answer) if answer else None

    def front(self, study_id: int) -> list[TrialSummary]:
        answer = self.request("GET", f"/studies/{study_id}/front")
        return [TrialSummary.from_dict(item) for item in answer]

    def kept_checkpoints(self, study_id: int) -> set[tuple[int, int]]:
        answer = self.request("GET", f"/studies/{study_id}/checkpoints/kept")
        return {(trial, step) for trial, step in answer}

    def events(self, study_id: int, *, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self.request(
            "GET", f"/studies/{study_id}/events", after=after, limit=limit
        )
        return answer

    def reports(self, study_id: int, *, after: int = 0) -> ReportPage:
        answer = self.request("GET", f"/studies/{study_id}/reports", after=after)
        return ReportPage.from_dict(answer)

    def segments(self, study_id: int, *, offset: int = 0) -> list[SegmentSummary]:
        answer = self.request("GET", f"/studies/{study_id}/segments", offset=offset)
        return [SegmentSummary.from_dict(item) for item in answer]

    def config(self, study_id: int) -> dict[str, Any]:
        answer: dict[str, Any] = self.request("GET", f"/studies/{study_id}/config")
        return answer

    def stop(self, study_id: int, reason: str) -> None:
        self.request("POST", f"/studies/{study_id}/stop", reason=reason)

    def pause(self, study_id: int, reason: str) -> None:
        self.request("POST", f"/studies/{study_id}/pause", reason=reason)

    def resume(self, study_id: int) -> None:
        self.request("POST", f"/studies/{study_id}/resume")

    def change(self, study_id: int, changes: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self.request("POST", f"/studies/{study_id}/config", changes)
        return answer

    # -- pools -------------------------------------------------------------------------------

    def pools(self) -> list[PoolSummary]:
        return [PoolSummary.from_dict(item) for item in self.request("GET", "/pools")]

    def set_pool(self, name: str, capacity: float) -> None:
        self.request("POST", f"/pools/{name}", capacity=capacity)

    def find_pool(self, name: str, capacity: float) -> None:
        self.request("POST", f"/pools/{name}/found", capacity=capacity)

    # -- jobs, imports -----------------------------------------------------------------------

    def submit(
        self, job: Mapping[str, Any], archive: bytes | None, *, key: str | None = None
    ) -> JobStatus:
        """Submits a job (a study in the job-file format) and returns the job's status.

        Args:
            job: The content of the job file.
            archive: The code as a tar.gz file; None if the job names an archive in the store.
            key: Idempotency key: a second request with the same key submits nothing. None for no
                such protection.
        """
        headers = {"Idempotency-Key": key} if key else None
        if archive is None:
            return JobStatus.from_dict(self.request("POST", "/jobs", dict(job), headers=headers))
        files = {
            "job": ("job.json", json.dumps(job).encode()),
            "code": ("code.tar.gz", archive),
        }
        return JobStatus.from_dict(self.request("POST", "/jobs", files=files, headers=headers))

    def job(self, name: str, run_id: str | None = None) -> JobStatus:
        return JobStatus.from_dict(self.request("GET", f"/jobs/{name}", run_id=run_id))

    def import_trials(self, request: ImportRequest) -> Imported:
        return Imported.from_dict(self.request("POST", "/imports", request.to_dict()))

    # -- reconciling -------------------------------------------------------------------------

    def ledger_part(self, segments: Sequence[str] = ()) -> LedgerPart:
        return LedgerPart.from_dict(self.request("POST", "/reconcile", list(segments)))

    def close_study(self, study_id: int, reason: str) -> None:
        self.request("POST", f"/studies/{study_id}/close", reason=reason)

    def lose_segment(self, study_id: int, segment: str, reason: str) -> bool:
        path = f"/studies/{study_id}/segments/{segment}/lose"
        return bool(self.request("POST", path, reason=reason))

    def free_leases(self, study_id: int) -> list[str]:
        freed: list[str] = self.request("POST", f"/studies/{study_id}/leases/free")
        return freed
