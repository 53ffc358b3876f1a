"""The base class of Airflow operators that run the agent of each segment inside the task.

A segment is one uninterrupted execution of a trial. The class serves the runners that train on
the worker's machine, in processes or containers.
"""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo_ops.airflow.code_folders import present_code
from hpo_ops.airflow.code_provenance import describe_code
from hpo_ops.airflow.entered_study import config_of, open_checkpoints
from hpo_ops.airflow.trial_task import TrialTask, assigned
from hpo_ops.checkpoints import BadCodeError
from hpo_ops.client import (
    GatewayClient,
    GatewayUnreachableError,
    NextAction,
    SegmentClient,
    StudyHandle,
    TrialResult,
)
from hpo_ops.protocol import Provenance
from hpo_ops.runners._unconfirmed_score import unconfirmed_score
from hpo_ops.runners.segment_with_agent import run_segment
from hpo_ops.runners.training_loop import SegmentRunner

if TYPE_CHECKING:
    from airflow.sdk import Context


class TaskWithAgent(TrialTask):
    """Runs one trial on this machine, segment by segment, until the trial is finished.

    Subclasses implement `segment_runner`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._runner: SegmentRunner | None = None
        self._is_killed = False

    @abstractmethod
    def segment_runner(
        self, study: StudyHandle, action: NextAction, code: Path | None
    ) -> SegmentRunner:
        """Creates the object that runs the training of the next segment.

        Args:
            study: The trial's study.
            action: The gateway's answer to the task, which names the segment to run.
            code: The study's code folder on this machine; None if the image contains the code.
        """

    def on_kill(self) -> None:
        self._is_killed = True
        if self._runner is not None:
            self._runner.terminate()

    def run_segment(
        self, gateway: GatewayClient, study: StudyHandle, action: NextAction, context: Context
    ) -> TrialResult | None:
        assignment = assigned(action)
        code = config_of(study).code
        folder = None if code is None else present_code(code)
        runner = self._runner = self.segment_runner(study, action, folder)
        with (
            tempfile.TemporaryDirectory(prefix=f"hpo-{self.number}-") as temporary,
            ThreadPoolExecutor(1, "hpo-code") as pool,
        ):
            # The folder may have changed since the study was prepared; the training need not wait.
            described = pool.submit(_describe, code, known=study.code_hash)
            finished = run_segment(
                assignment,
                root=Path(temporary) / "hpo",
                runner=runner,
                gateway=SegmentClient(gateway.url, action.token or "", assignment.segment),
                checkpoints=open_checkpoints(study),
                known=lambda: runner.provenance().over(self._code_provenance(described)),
            )
        try:
            receipt = finished.receipt or gateway.finish_segment(
                assignment.segment, finished.result, finished.unsent
            )
        except GatewayUnreachableError:
            score = unconfirmed_score(config_of(study), assignment, finished)
            if score is None or self._is_killed:
                raise
            self.log.warning(
                "the gateway does not answer: the score of %s is handed on by XCom only, and the "
                "ledger takes it from there",
                self.trial_name,
            )
            return score
        self.announce_end(receipt.result)
        if self._is_killed:
            raise RuntimeError(
                "Airflow ended this task; its retry resumes the trial from its checkpoint"
            )
        return receipt.score

    def _code_provenance(self, described: Future[Provenance]) -> Provenance:
        try:
            return described.result()
        except (BadCodeError, OSError) as error:
            self.log.warning("the code of this segment has no hash: %s", error)
            return Provenance()


def _describe(code: str | None, *, known: str | None) -> Provenance:
    return Provenance() if code is None else describe_code(Path(code), known=known)
