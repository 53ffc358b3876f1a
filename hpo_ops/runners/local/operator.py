"""The operator of trials that run as processes of the worker."""

from __future__ import annotations

import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo_ops.airflow.code_folders import present_code
from hpo_ops.airflow.code_provenance import describe_code
from hpo_ops.airflow.entered_study import config_of, open_checkpoints
from hpo_ops.airflow.trial_task import TrialTask, assigned
from hpo_ops.checkpoints import BadCodeError
from hpo_ops.client import GatewayClient, NextAction, SegmentClient, StudyHandle, TrialResult
from hpo_ops.protocol import Provenance
from hpo_ops.runners.local.local_segment import run_segment
from hpo_ops.runners.local.process_runner import ProcessRunner
from hpo_ops.runners.local.warm_starter import WarmStarter

if TYPE_CHECKING:
    from airflow.sdk import Context


class TrialOperator(TrialTask):
    """Runs one trial as processes of the worker, segment by segment, until it is done."""

    ui_color = "#f3e5f5"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._runner: ProcessRunner | None = None
        self._is_killed = False

    def on_kill(self) -> None:
        self._is_killed = True
        if self._runner is not None:
            self._runner.terminate()

    def run_segment(
        self, gateway: GatewayClient, study: StudyHandle, turn: NextAction, context: Context
    ) -> TrialResult | None:
        assignment = assigned(turn)
        config = config_of(study)
        self._runner = ProcessRunner(
            config.command,
            present_code(config.code or ""),
            environment=config.env,
            on_line=lambda line: self.log.info("%s", line),
            warm=WarmStarter(),
        )
        with (
            tempfile.TemporaryDirectory(prefix=f"hpo-{self.number}-") as folder,
            ThreadPoolExecutor(1, "hpo-code") as pool,
        ):
            # The folder may have changed since the study was prepared; the training need not wait.
            code = pool.submit(describe_code, Path(config.code or ""), known=study.code_hash)
            finished = run_segment(
                assignment,
                root=Path(folder) / "hpo",
                runner=self._runner,
                gateway=SegmentClient(gateway.url, turn.token or "", assignment.segment),
                checkpoints=open_checkpoints(study),
                known=lambda: self._code(code),
            )
        receipt = finished.receipt or gateway.finish_segment(
            assignment.segment, finished.result, finished.unsent
        )
        self.announce_end(receipt.result)
        if self._is_killed:
            raise RuntimeError(
                "Airflow ended this task; its retry resumes the trial from its checkpoint"
            )
        return receipt.score

    def _code(self, code: Future[Provenance]) -> Provenance:
        try:
            return code.result()
        except (BadCodeError, OSError) as error:
            self.log.warning("the code of this segment has no hash: %s", error)
            return Provenance()
