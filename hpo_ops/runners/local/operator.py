"""The Airflow operator of trials that run as processes of the worker."""

from __future__ import annotations

from pathlib import Path

from hpo_ops.airflow.entered_study import config_of
from hpo_ops.client import NextAction, StudyHandle
from hpo_ops.runners.local._process_runner import ProcessRunner
from hpo_ops.runners.local._warm_starter import WarmStarter
from hpo_ops.runners.task_with_agent import TaskWithAgent
from hpo_ops.runners.training_loop import SegmentRunner


class TrialOperator(TaskWithAgent):
    """Runs one trial to its end; each segment (uninterrupted execution) is a worker process."""

    ui_color = "#f3e5f5"

    def segment_runner(
        self, study: StudyHandle, action: NextAction, code: Path | None
    ) -> SegmentRunner:
        config = config_of(study)
        return ProcessRunner(
            config.command,
            code or Path(),
            environment=config.env,
            on_line=lambda line: self.log.info("%s", line),
            warm=WarmStarter(),
        )
