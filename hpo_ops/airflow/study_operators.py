"""The tasks of a study: prepare, sample, collect, publish, finalize."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, BaseOperator, XComArg
from airflow.sdk.definitions.xcom_arg import PlainXComArg
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from hpo_ops.airflow.code_folders import unpack_code
from hpo_ops.airflow.connections import (
    STORE_VARIABLE,
    connect_gateway,
    default_store,
    pods_get_platform_keys,
    store_credentials,
)
from hpo_ops.airflow.node_capacity import capacity_of
from hpo_ops.airflow.pod_checks import check_pods
from hpo_ops.airflow.repeats import read_repeat, start_repeats
from hpo_ops.airflow.running_studies import RunningStudies
from hpo_ops.airflow.trigger_form import check_map_length, dags_folder, max_mapped, read_trigger
from hpo_ops.checkpoints import (
    STORE_ERRORS,
    BadCodeError,
    Checkpoints,
    CorruptCheckpointError,
    find_packages,
    open_store,
    upload_code,
)
from hpo_ops.checkpoints.allowed_stores import AllowedStores
from hpo_ops.client import Best, StudyHandle, StudyRequest, TrialResult
from hpo_ops.config import Flow, StudyConfig, StudyError, read_entered
from hpo_ops.isolation.function_calls import call_function
from hpo_ops.protocol import Provenance
from hpo_ops.runners.code_provenance import find_origin

if TYPE_CHECKING:
    from airflow.sdk import Context


PREPARE = "prepare"
HANDLE = "study"
"""XCom key under which `prepare` hands the study on."""
PLATFORM_KEYS = (
    "pods get the platform's own keys of the store, good for every study in it: name a role in "
    "pod_role_arn of the connection hpo_s3, and they get credentials of their own trial instead"
)


def best_asset(name: str) -> Asset:
    """The asset that a study's best checkpoint is, for DAGs that are scheduled on it.

    Args:
        name: The study; for one of a generic DAG ``<DAG id>/<study>``.
    """
    return Asset(name=f"hpo/{name}/best", uri=f"hpo://{name}/best")


def open_checkpoints(study: StudyHandle) -> Checkpoints:
    """The study's checkpoints, as a worker reaches them."""
    store = config_of(study).checkpoints.store or ""
    open_it = partial(open_store, store, store_credentials())
    return Checkpoints(open_it, study.key, uri=store)


def config_of(study: StudyHandle) -> StudyConfig:
    """The configuration of the study that a task belongs to; decoded once a process."""
    return read_entered(study.config, source=f"study {study.key}")


class PrepareOperator(BaseOperator):
    """Checks the study and its store, and enters the study in the ledger.

    Returns the trial numbers that a rolling study maps over, and hands the study on beside them.

    Args:
        config: The study; None takes it from the trigger's ``study``.
        problem: What is wrong with the study's file: nothing new is started from it.
        runner: Where the trials of the generic DAG run.
        most_trials: Trials (with folds: folds) that a rolling DAG has tasks for.
    """

    ui_color = "#e8eaf6"

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None,
        problem: str | None = None,
        runner: str = "local",
        most_trials: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.problem = problem
        self.runner = runner
        self.most_trials = most_trials

    def execute(self, context: Context) -> list[int]:
        if self.problem:
            raise AirflowFailException(self.problem)
        try:
            config = self._study(context)
        except (StudyError, BadCodeError) as error:
            raise AirflowFailException(str(error)) from error
        repeat = read_repeat(context, config)
        config = config.as_repeat(repeat.number)
        try:
            archive, packages = self._pack_code(config)
        except BadCodeError as error:
            raise AirflowFailException(str(error)) from error
        except (*STORE_ERRORS, ValueError) as error:
            store = config.checkpoints.store
            raise AirflowFailException(f"the store {store} cannot be used: {error}") from error
        request = StudyRequest(
            config=config.to_dict(),
            dag_id=self.dag_id,
            run_id=context["run_id"],
            owner=triggering_user(context),
            capacity=capacity_of(config),
            origin=self._origin(config),
            archive=archive,
            packages=packages,
            experiment=repeat.experiment,
            repeat=repeat.number,
        )
        try:
            study = connect_gateway().start_study(request)
        except ValueError as error:
            raise AirflowFailException(str(error)) from error
        start_repeats(context, repeat, config.repeats)
        RunningStudies().remember(self.dag_id, context["run_id"], config)
        store = config.checkpoints.store
        self.log.info("study %s (id %d), checkpoints in %s", study.key, study.id, store)
        for note in study.notes:
            self.log.info("%s", note)
        if config.runner == "kubernetes" and pods_get_platform_keys():
            self.log.warning(PLATFORM_KEYS)
        context["ti"].xcom_push(key=HANDLE, value=study.to_dict())
        # What a task maps over must be another task's return value.
        count = min(config.mapped_trials, max_mapped()) if config.flow is Flow.ROLLING else 0
        return list(range(count))

    def _origin(self, config: StudyConfig) -> Provenance:
        """What the study's trials are made from, as far as this worker can see."""
        try:
            return find_origin(config, os.environ)
        except (BadCodeError, OSError) as error:
            self.log.warning("no other study can share the scores of this one: %s", error)
            return Provenance()

    def _pack_code(self, config: StudyConfig) -> tuple[str | None, list[str]]:
        """Packs the code for pods, and looks whether the store is there.

        Returns:
            The archive's name in the store, which gets it only where it has changed, and what pip
            installs for it.
        """
        store = open_store(config.checkpoints.store or "", store_credentials())
        if config.runner == "local" or config.code is None:
            Checkpoints(store, config.name).complete(trial=0)
            return None, []
        folder = Path(config.code)
        packages = find_packages(folder) if config.install else []
        archive = upload_code(store, folder)
        self.log.info("code %s is %s", config.code, archive)
        return archive, packages

    @property
    def numbers(self) -> XComArg:
        """The trial numbers that it returns, to map over."""
        return Numbers(self)

    @property
    def study(self) -> XComArg:
        """The study's handle, for the tasks after this one."""
        return XComArg(self, key=HANDLE)

    def _study(self, context: Context) -> StudyConfig:
        source = f"the trigger of {self.dag_id}"
        run = context["dag_run"]
        conf: Mapping[str, Any] = (run.conf if run else None) or {}
        config = read_trigger(
            self.config,
            conf,
            dict(context["params"]),
            source=source,
            folder=dags_folder(),
            runner=self.runner,
            unpack=unpack_code,
        )
        store = config.checkpoints.store or default_store()
        if store is None:
            raise StudyError(
                source,
                [
                    "checkpoints.store is missing, and the platform has no store of its own "
                    f"({STORE_VARIABLE})"
                ],
            )
        try:
            AllowedStores.from_environment().check(store)
        except ValueError as error:
            raise StudyError(source, [f"checkpoints.{error}"]) from error
        check_map_length(config, most=self.most_trials, source=source)
        check_pods(config, source=source)
        checkpoints = config.checkpoints.model_copy(update={"store": store})
        return config.model_copy(update={"checkpoints": checkpoints})


def triggering_user(context: Context) -> str | None:
    """The person who triggered the DAG run; None for a schedule and the like.

    Airflow hands the name on to runs that a task of the run triggers, such as repeats.
    """
    run = context["dag_run"]
    return run.triggering_user_name or None if run else None


class Numbers(PlainXComArg):
    """A list of consecutive trial numbers, for a task to map over.

    The list begins with the ``first_trial`` of the task that returns it, or with 0. The mapped
    instance i has the number ``first_trial + i``: it need not fetch the list to know.
    """

    def resolve(self, context: Mapping[str, Any]) -> range:
        first: int = getattr(self.operator, "first_trial", 0)
        return range(first, first + context["ti"].map_index + 1)


def entered_study(context: Context) -> StudyHandle | None:
    """What `prepare` handed on; None where it failed."""
    handle = context["ti"].xcom_pull(task_ids=PREPARE, key=HANDLE)
    return StudyHandle.from_dict(handle) if handle else None


class SampleOperator(BaseOperator):
    """Asks for the trials of a round."""

    ui_color = "#e3f2fd"
    template_fields = ("study",)

    def __init__(self, *, study: Any, round_number: int, rounds_left: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.study = study
        self.round_number = round_number
        self.rounds_left = rounds_left

    def execute(self, context: Context) -> list[dict[str, Any]]:
        study = StudyHandle.from_dict(self.study)
        group = connect_gateway().sample(study.id, self.round_number, rounds_left=self.rounds_left)
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
        scores = [TrialResult.from_dict(item) for item in _listed(pulled) if item]
        group = connect_gateway().collect(study.id, self.round_number, scores)
        for member in group.members:
            score = TrialResult.from_dict(member)
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

    def __init__(self, *, outlet: Asset | AssetAlias, **kwargs: Any) -> None:
        super().__init__(outlets=[outlet], **kwargs)
        self.outlet = outlet

    def execute(self, context: Context) -> dict[str, Any]:
        study = entered_study(context)
        if study is None:
            raise AirflowFailException("the study was never entered: there is nothing to publish")
        gateway = connect_gateway()
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
            # Anyone who may trigger the generic DAG chooses the name of a study: its event must
            # not pass for one of the DAG of that name.
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
        """Copies the best checkpoint; one that belongs to another study may be gone by now."""
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
    """Closes the study, whatever happened: leases are freed, checkpoints collected."""

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
        """Calls the user's functions; one that fails is logged and keeps none of the others."""
        config = config_of(study)
        code = None if config.code is None else Path(config.code)
        for name in config.finalizers:
            try:
                call_function("finalizers", name, self.result or {}, code=code)
                self.log.info("finalizer %s is done", name)
            except Exception:
                self.log.exception("finalizer %s failed", name)
