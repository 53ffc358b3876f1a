"""The tasks of a study: prepare, sample, collect, publish, finalize."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from hpo_ops.airflow.connections import connect_gateway, default_store, store_credentials
from hpo_ops.checkpoints import STORE_ERRORS, Checkpoints, open_store
from hpo_ops.client import Score, StudyHandle, StudyRequest
from hpo_ops.config import StudyError, parse_study

if TYPE_CHECKING:
    from airflow.sdk import Context


def open_checkpoints(study: StudyHandle) -> Checkpoints:
    """The study's checkpoints, as a worker reaches them."""
    return Checkpoints(open_store(study.store, store_credentials()), study.key, uri=study.store)


class PrepareOperator(BaseOperator):
    """Checks the study and its store, and enters the study in the ledger."""

    ui_color = "#e8eaf6"

    def __init__(self, *, config: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config

    def execute(self, context: Context) -> dict[str, Any]:
        try:
            config = parse_study(dict(self.config), source=f"study {self.dag_id}")
        except StudyError as error:
            raise AirflowFailException(str(error)) from error
        store = config.checkpoints.store or default_store()
        if store is None:
            raise AirflowFailException(
                f"study {config.name}: checkpoints.store is missing, "
                "and the platform has no store of its own (HPO_CHECKPOINT_STORE)"
            )
        data = config.to_dict()
        data["checkpoints"]["store"] = store
        study = connect_gateway().start_study(
            StudyRequest(config=data, dag_id=self.dag_id, run_id=context["run_id"])
        )
        try:
            open_checkpoints(study).complete(trial=0)
        except STORE_ERRORS as error:
            raise AirflowFailException(f"the store {store} cannot be read: {error}") from error
        self.log.info("study %s (id %d), checkpoints in %s", study.key, study.id, study.store)
        return study.to_dict()


class SampleOperator(BaseOperator):
    """Asks for the trials of a round."""

    ui_color = "#e3f2fd"
    template_fields = ("study",)

    def __init__(self, *, study: Any, round_number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.study = study
        self.round_number = round_number

    def execute(self, context: Context) -> list[dict[str, Any]]:
        study = StudyHandle.from_dict(self.study)
        group = connect_gateway().sample(study.id, self.round_number)
        self.log.info("round %d: %s", self.round_number, group.reason)
        for member in group.members:
            self.log.info("trial %d: %s", member["trial"], member["params"])
        return [
            {"number": member["trial"], "hyperparameters": member["params"]}
            for member in group.members
        ]


class CollectOperator(BaseOperator):
    """Takes the scores of a round by XCom to the sampler."""

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
        # A task without a result (its worker died for good) has no XCom; the ledger knows more.
        pulled = context["ti"].xcom_pull(task_ids=self.trial_task_id, map_indexes=None)
        scores = [Score.from_dict(item) for item in _listed(pulled) if item]
        group = connect_gateway().collect(study.id, self.round_number, scores)
        for member in group.members:
            score = Score.from_dict(member)
            self.log.info(
                "trial %d %s: %s (%s)", score.trial, score.state, score.value, score.reason
            )
        return group.members


def _listed(value: Any) -> Sequence[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, dict) else list(value)


class PublishOperator(BaseOperator):
    """Puts the best checkpoint in ``best/``, writes ``result.json``, emits an asset event."""

    ui_color = "#fff8e1"
    template_fields = ("study",)

    def __init__(self, *, study: Any, asset: Asset, **kwargs: Any) -> None:
        super().__init__(outlets=[asset], **kwargs)
        self.study = study
        self.asset = asset

    def execute(self, context: Context) -> dict[str, Any]:
        study = StudyHandle.from_dict(self.study)
        gateway = connect_gateway()
        best = gateway.best(study.id)
        if best is None:
            raise AirflowSkipException(
                "no trial has reported a value: there is nothing to publish"
            )
        progress = gateway.progress(study.id)
        checkpoints = open_checkpoints(study)
        uri = None
        if best.checkpoint_step is not None:
            uri = checkpoints.copy_to_best(best.trial, best.checkpoint_step)
        found: dict[str, Any] = {**best.to_dict(), "checkpoint_uri": uri}
        result: dict[str, Any] = {
            "study": study.name,
            "run_id": study.run_id,
            "metric": progress.metric,
            "direction": progress.direction,
            "reason": progress.reason,
            "trials": progress.counts,
            "best": found,
        }
        checkpoints.write_result(json.dumps(result, indent=2))
        context["outlet_events"][self.asset].extra = found
        self.log.info("best: trial %d with %s = %g", best.trial, progress.metric, best.value)
        self.log.info("best checkpoint: %s", uri)
        return result


class FinalizeOperator(BaseOperator):
    """Closes the study, whatever happened: leases are freed, checkpoints collected."""

    ui_color = "#eceff1"
    template_fields = ("study", "result")

    def __init__(self, *, study: Any, result: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.study = study
        self.result = result

    def execute(self, context: Context) -> None:
        if not self.study:
            self.log.info("the study was never entered: there is nothing to close")
            return
        study = StudyHandle.from_dict(self.study)
        gateway = connect_gateway()
        gateway.end_study(study.id, self.result or {})
        keep = gateway.kept_checkpoints(study.id)
        deleted = open_checkpoints(study).collect(keep)
        self.log.info("%d checkpoints kept, %d deleted", len(keep), len(deleted))
