"""The early-stopping sensor: decides whether a study goes on to its next round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import DownstreamTasksSkipped

from hpo_ops.airflow.connections import connect_gateway
from hpo_ops.airflow.triggers import TurnTrigger
from hpo_ops.client import StudyHandle, Verdict, VerdictKind

if TYPE_CHECKING:
    from airflow.sdk import Context


class EarlyStopSensor(BaseSensorOperator):
    """Waits while the study is paused; skips the rounds that are left when it is over."""

    ui_color = "#fce4ec"
    template_fields = ("study",)

    def __init__(self, *, study: Any, later_tasks: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.study = study
        self.later_tasks = later_tasks

    def execute(self, context: Context) -> dict[str, Any]:
        study = StudyHandle.from_dict(self.study)
        verdict = connect_gateway().verdict(study.id)
        self.log.info("%s: %s", verdict.kind, verdict.reason)
        if verdict.kind is VerdictKind.WAIT:
            self.defer(trigger=TurnTrigger(study_id=study.id), method_name="resume")
        if verdict.kind is VerdictKind.STOP and self.later_tasks:
            self._skip_the_rest(context, verdict)
        return verdict.to_dict()

    def resume(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Looks again after a wait."""
        return self.execute(context)

    def _skip_the_rest(self, context: Context, verdict: Verdict) -> None:
        context["ti"].xcom_push(key="return_value", value=verdict.to_dict())
        raise DownstreamTasksSkipped(tasks=list(self.later_tasks))
