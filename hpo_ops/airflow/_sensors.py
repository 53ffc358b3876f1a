"""Sensors of a study: `EarlyStopSensor` and `LaterTrialsSensor`.

The first skips tasks that are no longer needed when the study is over, the second waits until the
study's next mapped trial task is needed.

A study has one of two flows: rounds (batches of trials sampled together) or rolling (each free
slot is refilled at once).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped

from hpo_ops.airflow._triggers import TrialWakeTrigger
from hpo_ops.airflow._xcom_scores import log_comparison, pull_scores
from hpo_ops.airflow.connections import connect_gateway
from hpo_ops.airflow.entered_study import config_of
from hpo_ops.client import GatewayClient, StudyHandle, StudyVerdict, VerdictKind
from hpo_ops.isolation.function_calls import call_function

if TYPE_CHECKING:
    from airflow.sdk import Context


LOOK_SECONDS = 60.0
"""Seconds between two comparisons of a rolling study's trials with their Airflow tasks."""
ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")


class EarlyStopSensor(BaseSensorOperator):
    """Skips the tasks that have not started when a study is over, so that `publish` runs next.

    In a study with rounds, a sensor after each round checks once whether the study is over, and
    waits only while the study is paused. In a rolling study, one sensor runs in parallel with the
    trials and waits until the study is over.

    Args:
        study: The study's handle.
        later_tasks: Ids of the tasks to skip when the study is over.
        trial_tasks: Ids of a rolling study's mapped trial tasks, each by the number of its first
            trial. Instances that have not started are skipped when the study is over.
    """

    ui_color = "#fce4ec"
    template_fields = ("study",)

    def __init__(
        self,
        *,
        study: Any,
        later_tasks: Sequence[str] = (),
        trial_tasks: Mapping[int, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.study = study
        self.later_tasks = later_tasks
        self.trial_tasks = dict(trial_tasks or {})

    def execute(self, context: Context) -> dict[str, Any]:
        study = StudyHandle.from_dict(self.study)
        gateway = connect_gateway()
        if self.trial_tasks:
            self._abandon_lost(context, gateway, study)
        verdict = gateway.verdict(study.id)
        if verdict.kind is not VerdictKind.STOP and (reason := self._user_reason(gateway, study)):
            gateway.stop(study.id, reason)
            verdict = gateway.verdict(study.id)
        self.log.info("%s: %s", verdict.kind, verdict.reason)
        is_rolling = bool(self.trial_tasks)
        if verdict.kind is VerdictKind.WAIT or (is_rolling and verdict.kind is VerdictKind.GO_ON):
            looks_often = config_of(study).stop.when is not None or not is_rolling
            self.defer(
                trigger=TrialWakeTrigger(
                    study_id=study.id,
                    seen=verdict.seen if looks_often else None,
                    timeout_seconds=LOOK_SECONDS if is_rolling else None,
                ),
                method_name="resume",
            )
        if verdict.kind is VerdictKind.STOP:
            self._skip_the_rest(context, gateway, study, verdict)
        return verdict.to_dict()

    def resume(self, context: Context, event: Any = None) -> dict[str, Any]:
        """Resumes the deferred sensor after its trigger has fired."""
        return self.execute(context)

    def _skip_the_rest(
        self, context: Context, gateway: GatewayClient, study: StudyHandle, verdict: StudyVerdict
    ) -> None:
        skipped: list[str | tuple[str, int]] = list(self.later_tasks)
        if self.trial_tasks:
            progress = gateway.progress(study.id)
            skipped += [
                self._instance_of(number)
                for number in range(progress.begun, progress.mapped_trials)
            ]
        if skipped:
            context["ti"].xcom_push(key="return_value", value=verdict.to_dict())
            raise DownstreamTasksSkipped(tasks=skipped)

    def _instance_of(self, number: int) -> tuple[str, int]:
        """Returns the mapped task's id and the map index of the instance that runs a trial."""
        first = max(first for first in self.trial_tasks if first <= number)
        return self.trial_tasks[first], number - first

    def _abandon_lost(self, context: Context, gateway: GatewayClient, study: StudyHandle) -> None:
        """Marks a trial as failed if its task has ended without a result in the ledger or in XCom.

        A task ends so, for example, if a person sets its state in Airflow's UI.
        """
        run_id = context["run_id"]
        states = (
            context["ti"]
            .get_task_states(
                dag_id=self.dag_id, task_ids=list(self.trial_tasks.values()), run_ids=[run_id]
            )
            .get(run_id, {})
        )
        ended = [
            first + int(index)
            for first, task_id in self.trial_tasks.items()
            for name, state in states.items()
            if state in ENDED and (index := name.removeprefix(f"{task_id}_")).isdecimal()
        ]
        lost = gateway.lost(study.id, ended) if ended else []
        if lost:
            self._absorb(context, gateway, study, lost)
        for number in gateway.abandon(study.id, lost) if lost else ():
            self.log.warning(
                "trial %d counts as failed: its task ended without reporting a result", number
            )

    def _absorb(
        self, context: Context, gateway: GatewayClient, study: StudyHandle, lost: Sequence[int]
    ) -> None:
        """Sends the gateway the results that the tasks of lost trials pushed to XCom.

        Args:
            context: The context of this task.
            gateway: Client of the gateway.
            study: The study's handle.
            lost: Numbers of the trials whose ends were not reported to the gateway.
        """
        for number in lost:
            task_id, index = self._instance_of(number)
            scores = pull_scores(context, task_id, [index])
            if scores:
                log_comparison(self.log, gateway.absorb(study.id, scores))

    def _user_reason(self, gateway: GatewayClient, study: StudyHandle) -> str | None:
        """Calls the user's stopping criterion (``stop.when``).

        Returns:
            The reason to stop; None if the study has no such criterion or is to continue.
        """
        config = config_of(study)
        if config.stop.when is None:
            return None
        trials = [trial.to_dict() for trial in gateway.trials(study.id)]
        code = None if config.code is None else Path(config.code)
        answer = call_function("stop.when", config.stop.when, trials, code=code)
        if isinstance(answer, str) and answer:
            return answer
        return f"{config.stop.when} says so" if answer else None


class LaterTrialsSensor(BaseSensorOperator):
    """Waits until the next mapped trial task of a rolling study is needed; returns its trials.

    The returned trial numbers are the numbers over which the trial task is mapped. While it waits,
    the sensor is deferred to a trigger. If the study ends first, the sensor and its trial task are
    skipped.

    Args:
        study: The study's handle.
        first_trial: Number of the first trial of the mapped task.
        most: The largest number of instances of the mapped task.
    """

    ui_color = "#fce4ec"
    template_fields = ("study",)

    def __init__(self, *, study: Any, first_trial: int, most: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.study = study
        self.first_trial = first_trial
        self.most = most

    def execute(self, context: Context) -> list[int]:
        study = StudyHandle.from_dict(self.study)
        progress = connect_gateway().progress(study.id)
        if progress.mapped_trials <= self.first_trial:
            raise AirflowSkipException(f"the study has {progress.mapped_trials} trials at most")
        if progress.begun <= self.first_trial:
            self.log.info("trial %d waits for a slot", self.first_trial)
            self.defer(
                trigger=TrialWakeTrigger(study_id=study.id, trial=self.first_trial),
                method_name="resume",
            )
        return list(
            range(self.first_trial, min(self.first_trial + self.most, progress.mapped_trials))
        )

    def resume(self, context: Context, event: Any = None) -> list[int]:
        """Resumes the deferred sensor after its trigger has fired."""
        return self.execute(context)
