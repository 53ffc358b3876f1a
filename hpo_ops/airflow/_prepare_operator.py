"""The task `prepare`: checks a study, packs its code, and enters the study in the ledger."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, XComArg
from airflow.sdk.definitions.xcom_arg import PlainXComArg
from airflow.sdk.exceptions import AirflowFailException

from hpo_ops.airflow._repeats import read_repeat, start_repeats
from hpo_ops.airflow._running_studies import RunningStudies
from hpo_ops.airflow.code_folders import unpack_code
from hpo_ops.airflow.code_provenance import find_origin
from hpo_ops.airflow.connections import (
    STORE_VARIABLE,
    connect_gateway,
    default_store,
    store_credentials,
)
from hpo_ops.airflow.entered_study import HANDLE
from hpo_ops.airflow.trigger_form import check_map_length, dags_folder, max_mapped, read_trigger
from hpo_ops.checkpoints import (
    STORE_ERRORS,
    BadCodeError,
    Checkpoints,
    find_packages,
    open_store,
    upload_code,
)
from hpo_ops.checkpoints.allowed_stores import AllowedStores
from hpo_ops.client import StudyRequest
from hpo_ops.config import Flow, StudyConfig, StudyError
from hpo_ops.config.runner_registry import DEFAULT_RUNNER, find_runner
from hpo_ops.protocol import Provenance

if TYPE_CHECKING:
    from airflow.sdk import Context


class PrepareOperator(BaseOperator):
    """Checks the study and its store, and enters the study in the ledger.

    The task pushes the study's handle to XCom. In a rolling study (`flow: rolling`) it returns the
    trial numbers over which the first trial task is mapped; otherwise it returns an empty list.

    Args:
        config: The study configuration; if None, the key ``study`` of the trigger config is used.
        problem: Why the study file cannot be used: the task fails with this message. None if the
            file is valid.
        runner: Name of the generic DAG's runner; used only if `config` is None.
        most_trials: Number of trials for which a rolling study's DAG has tasks; each fold counts
            as a trial.
    """

    ui_color = "#e8eaf6"

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None,
        problem: str | None = None,
        runner: str = DEFAULT_RUNNER,
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
        runner = find_runner(config.runner)
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
            capacity=runner.pool_capacity(config),
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
        for warning in runner.find_warnings(config):
            self.log.warning("%s", warning)
        context["ti"].xcom_push(key=HANDLE, value=study.to_dict())
        # Airflow can map tasks only over the return value of another task.
        count = min(config.mapped_trials, max_mapped()) if config.flow is Flow.ROLLING else 0
        return list(range(count))

    def _origin(self, config: StudyConfig) -> Provenance:
        """Returns what is known of the trials' provenance before the study starts.

        If the study's code cannot be hashed, the provenance is empty and a warning is logged.
        """
        try:
            return find_origin(config, os.environ)
        except (BadCodeError, OSError) as error:
            self.log.warning("other studies cannot reuse the scores of this study: %s", error)
            return Provenance()

    def _pack_code(self, config: StudyConfig) -> tuple[str | None, list[str]]:
        """Uploads the study's code as an archive if the runner needs an archive.

        An archive that is already in the store is not uploaded again. If there is nothing to
        upload, the store is read once, so that an unusable store is noticed before any trial.

        Returns:
            The archive's name in the store, and the arguments with which pip installs the code's
            packages; None and an empty list if no archive is needed.
        """
        store = open_store(config.checkpoints.store or "", store_credentials())
        if config.code is None or not find_runner(config.runner).packs_code:
            Checkpoints(store, config.name).complete(trial=0)
            return None, []
        folder = Path(config.code)
        packages = find_packages(folder) if config.install else []
        archive = upload_code(store, folder)
        self.log.info("the code %s is packed in the store as %s", config.code, archive)
        return archive, packages

    @property
    def numbers(self) -> XComArg:
        """A reference to the returned trial numbers, over which the trial task is mapped."""
        return Numbers(self)

    @property
    def study(self) -> XComArg:
        """A reference to the study's handle in XCom, for later tasks."""
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
        if refusals := find_runner(config.runner).find_refusals(config):
            raise StudyError(source, refusals)
        checkpoints = config.checkpoints.model_copy(update={"store": store})
        return config.model_copy(update={"checkpoints": checkpoints})


def triggering_user(context: Context) -> str | None:
    """Returns the name of the person who triggered the DAG run, or None if no person did.

    If a task of this DAG run triggers other runs, such as repeats, Airflow gives these runs the
    same name.
    """
    run = context["dag_run"]
    return run.triggering_user_name or None if run else None


class Numbers(PlainXComArg):
    """A reference to a list of consecutive trial numbers over which a trial task is mapped.

    The first number is the attribute ``first_trial`` of the task that returns the list, or 0 if
    that task has no such attribute. So the trial task's instance with map index i computes its
    trial number ``first_trial + i`` without fetching the list from XCom.
    """

    def resolve(self, context: Mapping[str, Any]) -> range:
        first: int = getattr(self.operator, "first_trial", 0)
        return range(first, first + context["ti"].map_index + 1)
