"""The operators of a study's tasks other than trials: sample, collect, publish, finalize."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from hpo_ops.airflow._running_studies import RunningStudies
from hpo_ops.airflow._xcom_scores import batched, log_comparison, pull_scores
from hpo_ops.airflow.connections import connect_gateway
from hpo_ops.airflow.entered_study import config_of, entered_study, open_checkpoints
from hpo_ops.checkpoints import Checkpoints, CorruptCheckpointError
from hpo_ops.client import Best, StudyHandle
from hpo_ops.isolation.function_calls import call_function

if TYPE_CHECKING:
    from airflow.sdk import Context


def best_asset(name: str) -> Asset:
    """Returns the Airflow asset of a study's best checkpoint, on which DAGs can be scheduled.

    Args:
        name: The study's name; ``<DAG id>/<study's name>`` if a generic DAG runs the study.
    """
    return Asset(name=f"hpo/{name}/best", uri=f"hpo://{name}/best")


class SampleOperator(BaseOperator):
    """Samples the trials of a round (a batch of trials sampled together) through the gateway.

    Returns the number and the hyperparameters of each trial, over which the trial task is mapped.

    Args:
        study: The study's handle.
        round_number: Number of the round, from 0.
        rounds_left: Number of rounds left, including this round.
    """

    ui_color = "#e3f2fd"
    template_fields = ("study",)

    def __init__(self, *, study: Any, round_number: int, rounds_left: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.study = study
        self.round_number = round_number
        self.rounds_left = rounds_left

    def execute(self, context: Context) -> list[dict[str, Any]]:
        study = StudyHandle.from_dict(self.study)
        planned = connect_gateway().sample(
            study.id, self.round_number, rounds_left=self.rounds_left
        )
        self.log.info("round %d: %s", self.round_number, planned.reason)
        for trial in planned.trials:
            self.log.info("trial %d: %s", trial.trial, trial.params)
        return [
            {"number": trial.trial, "hyperparameters": trial.params} for trial in planned.trials
        ]


class CollectOperator(BaseOperator):
    """Closes a round (a batch of trials sampled together) and returns the results of its trials.

    The task sends the gateway the results that the trial tasks pushed to XCom. The gateway uses
    such a result only for a trial whose end was not reported to it in another way.

    Args:
        study: The study's handle.
        round_number: Number of the round, from 0.
        trial_task_id: Id of the round's mapped trial task.
    """

    ui_color = "#e0f2f1"
    template_fields = ("study",)

    def __init__(
        self, *, study: Any, round_number: int, trial_task_id: str, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.study = study
        self.round_number = round_number
        self.trial_task_id = trial_task_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        study = StudyHandle.from_dict(self.study)
        scores = pull_scores(context, self.trial_task_id)
        collected = connect_gateway().collect(study.id, self.round_number, scores)
        log_comparison(self.log, collected.scores)
        for score in collected.results:
            self.log.info(
                "trial %d %s: %s (%s)", score.trial, score.state, score.value, score.reason
            )
        return [score.to_dict() for score in collected.results]


class PublishOperator(BaseOperator):
    """Publishes the best trial: copies its checkpoint, and emits an event of an Airflow asset.

    The checkpoint is copied to ``best/`` in the study's folder of the store, and the study's
    result is written to ``result.json`` there.

    Args:
        outlet: The asset of the best checkpoint; an alias in a generic DAG, where the asset's name
            depends on the study.
        trial_tasks: Ids of the mapped trial tasks of a rolling study (`flow: rolling`). The
            results that these tasks pushed to XCom are first compared with the ledger.
    """

    ui_color = "#fff8e1"

    def __init__(
        self, *, outlet: Asset | AssetAlias, trial_tasks: Sequence[str] = (), **kwargs: Any
    ) -> None:
        super().__init__(outlets=[outlet], **kwargs)
        self.outlet = outlet
        self.trial_tasks = trial_tasks

    def execute(self, context: Context) -> dict[str, Any]:
        study = entered_study(context)
        if study is None:
            raise AirflowFailException("the study was never entered: there is nothing to publish")
        gateway = connect_gateway()
        for task_id in self.trial_tasks:
            for batch in batched(pull_scores(context, task_id)):
                log_comparison(self.log, gateway.absorb(study.id, batch))
        best = gateway.best(study.id)
        progress = gateway.progress(study.id)
        if best is None and progress.counts["failed"]:
            raise AirflowFailException(
                f"{progress.counts['failed']} trials failed and none has reported a value"
            )
        if best is None:
            raise AirflowSkipException(
                "no trial has reported a value: there is nothing to publish"
            )
        checkpoints = open_checkpoints(study)
        uri = None
        if best.checkpoint_step is not None:
            uri = self._copy(checkpoints, best)
        trial = gateway.trial(study.id, best.trial)
        found: dict[str, Any] = {
            **best.to_dict(),
            "checkpoint_uri": uri,
            "seed": trial.seed,
            "data_version": trial.data_version,
            "provenance": trial.provenance.known(),
        }
        result: dict[str, Any] = {
            "study": study.name,
            "run_id": study.run_id,
            "metric": progress.metric,
            "direction": progress.direction,
            "reason": progress.reason,
            "trials": progress.counts,
            "best": found,
            "front": [trial.to_dict() for trial in gateway.front(study.id)],
        }
        checkpoints.write_result(json.dumps(result, indent=2))
        events = context["outlet_events"][self.outlet]
        if isinstance(self.outlet, AssetAlias):
            # The user who triggers the generic DAG chooses the study's name: the study's event
            # must not be mistaken for an event of the DAG with that name.
            events.add(best_asset(f"{self.dag_id}/{study.name}"), extra=found)
        else:
            events.extra = found
        self.log.info("best: trial %d with %s = %g", best.trial, progress.metric, best.value)
        if best.folds:
            self.log.info(
                "its %d folds deviate by %g; the checkpoint is that of %s",
                len(best.folds),
                best.deviation or 0.0,
                "the retraining on all data"
                if best.is_retrained
                else f"fold {(best.checkpoint_fold or 0) + 1}",
            )
        self.log.info("best checkpoint: %s", uri)
        return result

    def _copy(self, checkpoints: Checkpoints, best: Best) -> str | None:
        """Copies the best checkpoint to ``best/`` and returns its URI.

        Returns None if the score cache served the best trial from another study, and that study's
        checkpoint cannot be read any more.
        """
        step = best.checkpoint_step or 0
        number = best.trial if best.checkpoint_trial is None else best.checkpoint_trial
        try:
            return checkpoints.copy_to_best(
                number, step, uri=best.checkpoint_uri, digest=best.checkpoint_digest
            )
        except CorruptCheckpointError as error:
            if best.served is None:
                raise
            self.log.warning("%s: it was served from %s", error, best.served)
            return None


class FinalizeOperator(BaseOperator):
    """Ends the study in the ledger and deletes the checkpoints that are no longer needed.

    The task also runs after failed tasks. It first calls the user's finalizer functions; the
    gateway decides which checkpoints are kept.

    Args:
        result: The study's result that the task `publish` returned; None if there is no result.
    """

    ui_color = "#eceff1"
    template_fields = ("result",)

    def __init__(self, *, result: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.result = result

    def execute(self, context: Context) -> None:
        RunningStudies().forget(self.dag_id, context["run_id"])
        study = entered_study(context)
        if study is None:
            self.log.info("the study was never entered: there is nothing to close")
            return
        gateway = connect_gateway()
        self._run_finalizers(study)
        gateway.end_study(study.id, self.result or {})
        keep = gateway.kept_checkpoints(study.id)
        deleted = open_checkpoints(study).collect(keep)
        self.log.info("%d checkpoints kept, %d deleted", len(keep), len(deleted))

    def _run_finalizers(self, study: StudyHandle) -> None:
        """Calls the user's finalizer functions with the study's result; only logs failures."""
        config = config_of(study)
        code = None if config.code is None else Path(config.code)
        for name in config.finalizers:
            try:
                call_function("finalizers", name, self.result or {}, code=code)
                self.log.info("finalizer %s is done", name)
            except Exception:
                self.log.exception("finalizer %s failed", name)
