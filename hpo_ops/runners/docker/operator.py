"""The Airflow operator of trials that run in Docker containers."""

from __future__ import annotations

import os
from pathlib import Path

from hpo_ops.airflow.entered_study import config_of
from hpo_ops.airflow.trial_task import assigned
from hpo_ops.client import NextAction, StudyHandle
from hpo_ops.runners.docker._container_runner import ContainerRunner
from hpo_ops.runners.docker._container_spec import SegmentContainer, User, plan_memory
from hpo_ops.runners.docker._engine_api import DockerEngine
from hpo_ops.runners.platform_images import training_image
from hpo_ops.runners.task_with_agent import TaskWithAgent
from hpo_ops.runners.training_loop import SegmentRunner


class TrialContainerOperator(TaskWithAgent):
    """Runs one trial to its end; each segment (uninterrupted execution) is a container."""

    ui_color = "#e1f5fe"

    def segment_runner(
        self, study: StudyHandle, action: NextAction, code: Path | None
    ) -> SegmentRunner:
        config, assignment = config_of(study), assigned(action)
        memory = plan_memory(config.resources, ooms=action.ooms)
        units = assignment.resources.get("units", 1.0)
        plan = SegmentContainer(
            assignment=assignment,
            study=study.key,
            command=config.command,
            image=config.image or training_image(os.environ),
            code=code,
            user=User.beside(os.getuid(), os.getgid()),
            resources=config.resources.model_copy(update={"memory": memory.now}).scaled(units),
            environment=config.env,
        )
        self.log.info("%s runs in the container %s", self.trial_name, plan.name)
        return ContainerRunner(
            DockerEngine.from_environment(os.environ),
            plan,
            next_memory=memory.next,
            on_line=lambda line: self.log.info("%s", line),
        )
