"""The base operator of trial tasks for all runners.

The task of a trial requests the next action from the gateway, runs segments (uninterrupted
executions of the trial) and pushes the trial's result to XCom.
"""

from __future__ import annotations

import time
import uuid
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from hpo_ops.airflow._triggers import TrialWakeTrigger
from hpo_ops.airflow.connections import connect_gateway
from hpo_ops.airflow.entered_study import config_of, entered_study
from hpo_ops.client import (
    GatewayClient,
    NextAction,
    NextActionKind,
    StudyHandle,
    TrialResult,
)
from hpo_ops.core import Goal, TrialState
from hpo_ops.protocol import Assignment, ParamValue, SegmentResult

if TYPE_CHECKING:
    from airflow.sdk import Context


SPARE_SECONDS = 60.0
"""Time that the first trial of the queue waits in its worker process before its task defers."""
WAIT_SECONDS = 5.0
"""Time for which the gateway may hold a request open if the trial has to wait."""


class TrialTask(BaseOperator):
    """Abstract operator of a trial; subclasses implement the execution of a segment.

    Args:
        number: The trial's number.
        hyperparameters: The trial's hyperparameters; None if the gateway assigns them when the
            trial starts.
        folds: Number of folds of each trial; 1 without folds, or if the number is not known yet.
        is_retraining: Whether the task retrains the best trial on all data. The gateway then
            assigns the trial's number.
    """

    def __init__(
        self,
        *,
        number: int = 0,
        hyperparameters: Mapping[str, ParamValue] | None = None,
        folds: int = 1,
        is_retraining: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.number = number
        self.hyperparameters = hyperparameters or {}
        self.folds = folds
        self.is_retraining = is_retraining
        self._score: TrialResult | None = None

    @property
    def label(self) -> str:
        """The trial's label in Airflow's grid: number, hyperparameters and, once known, value.

        An example with folds is ``3 fold 2/5: lr=0.01 → 0.93``. The label is empty while the
        hyperparameters are unknown.
        """
        if not self.hyperparameters:
            return ""
        shown = " ".join(f"{name}={_short(value)}" for name, value in self.hyperparameters.items())
        value = self._score.value if self._score else None
        result = "" if value is None else f" → {_short(value)}"
        if self._score and self._score.served:
            result += " (cache)"
        trial, fold = divmod(self.number, self.folds)
        which = f"{trial} fold {fold + 1}/{self.folds}" if self.folds > 1 else str(trial)
        return f"{which}: {shown}{result}".strip()

    @property
    def trial_name(self) -> str:
        """The name of the trial in log lines: its number (with its fold), or "the retraining"."""
        if self.is_retraining:
            return "the retraining"
        return Goal(trials=0, folds=self.folds).name_of(self.number)

    def execute(self, context: Context) -> None:
        gateway = connect_gateway()
        run = self.dag_id, context["run_id"]
        if self.is_retraining:
            self._begin_retraining(gateway, context)
        give_up_at = time.monotonic() + SPARE_SECONDS
        while True:
            action = gateway.next_action(
                *run, self.number, key=self.segment_key(), wait=WAIT_SECONDS
            )
            study = known_study(action)
            self.folds = config_of(study).fold_count
            if action.kind is NextActionKind.RUN:
                self._announce(action)
                score = self.run_segment(gateway, study, action, context)
                if score is not None:
                    return self.end(context, study, score)
            elif action.score is not None:
                return self.end(context, study, action.score)
            elif not action.is_next or time.monotonic() >= give_up_at:
                self.log.info("%s waits: %s", self.trial_name, action.reason)
                self.defer(
                    trigger=TrialWakeTrigger(study_id=study.id, trial=self.number),
                    method_name="resume",
                )

    def _begin_retraining(self, gateway: GatewayClient, context: Context) -> None:
        study = entered_study(context)
        if study is None:
            raise AirflowSkipException("the study was never entered: nothing is retrained")
        found = gateway.retrain(study.id)
        if found.trial is None:
            raise AirflowSkipException(f"nothing is retrained: {found.reason}")
        self.number = found.trial
        self.log.info("%s", found.reason)

    def resume(self, context: Context, event: Any = None) -> None:
        """Resumes the deferred task after its trigger has fired."""
        self.execute(context)

    def segment_key(self) -> str:
        """Returns the idempotency key of this attempt to start a segment.

        The gateway answers requests with the same key with the same segment.
        """
        return uuid.uuid4().hex

    @abstractmethod
    def run_segment(
        self, gateway: GatewayClient, study: StudyHandle, action: NextAction, context: Context
    ) -> TrialResult | None:
        """Runs a segment to its end, and ensures that the gateway has recorded its end.

        Returns:
            The trial's result if the trial ended with this segment, else None.
        """

    def _announce(self, action: NextAction) -> None:
        assignment = assigned(action)
        self.hyperparameters = assignment.params
        units = assignment.resources.get("units", 1.0)
        self.log.info(
            "%s runs from step %d to %s%s: %s",
            self.trial_name,
            assignment.from_step,
            assignment.until_step or "its end",
            "" if units == 1 else f" on {units:g} units",
            action.reason,
        )

    def announce_end(self, result: SegmentResult) -> None:
        """Logs the outcome, the last step and the reason of a segment's end."""
        self.log.info(
            "%s segment %s at step %d: %s",
            self.trial_name,
            result.outcome,
            result.step,
            result.reason or "its end",
        )

    def end(self, context: Context, study: StudyHandle, score: TrialResult) -> None:
        """Pushes the trial's result to XCom and ends the task in the state of the trial.

        Raises:
            AirflowSkipException: The trial was pruned.
            AirflowFailException: The trial failed.
        """
        self._score = score
        self.number = score.trial
        self.folds = config_of(study).fold_count
        self.hyperparameters = score.params
        self.log.info("%s %s: %s", self.trial_name, score.state, score.reason)
        # Airflow does not push the return value of a skipped or failed task.
        context["ti"].xcom_push(key="return_value", value=score.to_dict())
        # Airflow sends the label together with the task's state, without a separate request.
        if not self.is_retraining:
            context["ti"].rendered_map_index = self.label
        if score.state is TrialState.PRUNED:
            raise AirflowSkipException(score.reason)
        if score.state is TrialState.FAILED:
            raise AirflowFailException(f"{self.trial_name}: {score.reason}")


def assigned(action: NextAction) -> Assignment:
    """Returns the assignment in the gateway's next action, which must be to run a segment.

    Raises:
        ValueError: The next action has no assignment or no token.
    """
    if action.assignment is None or action.token is None:
        raise ValueError(
            f"the gateway said to run a segment without an assignment: {action.reason}"
        )
    return action.assignment


def known_study(action: NextAction) -> StudyHandle:
    """Returns the handle of the study to which the gateway's next action belongs.

    Raises:
        ValueError: The next action names no study.
    """
    if action.study is None:
        raise ValueError(f"the gateway's next action names no study: {action.reason}")
    return action.study


def _short(value: ParamValue) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
