"""Provides an Optuna storage on the ledger's database that writes in few SQL statements."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import distribution_to_json
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import Connection, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

StorageError = SQLAlchemyError
"""The error if an Optuna storage cannot be read: no connection, or unexpected tables."""

_INDEX = "CREATE INDEX IF NOT EXISTS hpo_trials_by_number ON trials (study_id, number)"


def open_storage(url: str) -> BaseStorage:
    """Opens Optuna's storage on the ledger's database.

    Commits of this storage do not wait for the disk (``synchronous_commit=off``). That is safe:
    the ledger commits later, to the same write-ahead log, and waits for the disk. So every trial
    that the ledger records as sampled or ended is on disk in Optuna's tables too.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    options = "-csearch_path=public -csynchronous_commit=off"
    engine = {"pool_pre_ping": True, "connect_args": {"options": options}}
    storage = LedgerStorage(url, engine_kwargs=engine)
    with storage.engine.begin() as connection:
        connection.execute(text(_INDEX))
    return optuna.storages.get_storage(storage)


def describe_trial(
    storage: BaseStorage,
    trial_id: int,
    *,
    curve: Sequence[tuple[int, float]],
    attributes: Mapping[str, Any],
) -> None:
    """Writes intermediate values and user attributes of a trial. Idempotent."""
    backend = _ledger_storage(storage)
    if backend is not None:
        backend.describe(trial_id, curve, attributes)
        return
    for step, value in curve:
        storage.set_trial_intermediate_value(trial_id, step, value)
    for name, value in attributes.items():
        storage.set_trial_user_attr(trial_id, name, value)


def end_trial(
    storage: BaseStorage, trial_id: int, state: TrialState, values: Sequence[float] | None
) -> None:
    """Sets the final state and values of a running trial; an ended trial is not changed."""
    backend = _ledger_storage(storage)
    if backend is not None:
        backend.end(trial_id, state, values or ())
        return
    storage.set_trial_state_values(trial_id, state, values)


def _ledger_storage(storage: BaseStorage) -> LedgerStorage | None:
    backend = getattr(storage, "_backend", None)  # Optuna wraps a storage in its own cache
    return backend if isinstance(backend, LedgerStorage) else None


class LedgerStorage(RDBStorage):
    """An Optuna storage that writes a trial in a few SQL statements instead of one for each value.

    It writes the same rows as Optuna's own storage. A new trial gets the number of the
    template that the caller passes, whereas Optuna counts all trials of the study each time; so
    the caller must not create two trials of a study at the same time.
    """

    def _create_new_trial(
        self, study_id: int, template_trial: FrozenTrial | None = None
    ) -> FrozenTrial:
        if template_trial is None or template_trial.number < 0:
            return super()._create_new_trial(study_id, template_trial)
        trial = copy.deepcopy(template_trial)
        with self.engine.begin() as connection:
            trial._trial_id = connection.execute(
                insert(_TRIALS)
                .values(
                    number=trial.number,
                    study_id=study_id,
                    state=trial.state,
                    datetime_start=datetime.now(UTC).replace(tzinfo=None),
                )
                .returning(_TRIALS.c.trial_id)
            ).scalar_one()
            params = [
                {
                    "param_name": name,
                    "param_value": trial.distributions[name].to_internal_repr(value),
                    "distribution_json": distribution_to_json(trial.distributions[name]),
                }
                for name, value in trial.params.items()
            ]
            _add(connection, models.TrialParamModel, trial._trial_id, params)
            _add_attributes(
                connection, models.TrialSystemAttributeModel, trial._trial_id, trial.system_attrs
            )
        return trial

    def describe(
        self, trial_id: int, curve: Sequence[tuple[int, float]], attributes: Mapping[str, Any]
    ) -> None:
        """Inserts intermediate values and user attributes of a trial; existing rows stay."""
        if not curve and not attributes:
            return
        model = models.TrialIntermediateValueModel
        written = [
            (step, *model.intermediate_value_to_stored_repr(value)) for step, value in curve
        ]
        values = [
            {"step": step, "intermediate_value": value, "intermediate_value_type": kind}
            for step, value, kind in written
        ]
        with self.engine.begin() as connection:
            _add(connection, model, trial_id, values)
            _add_attributes(connection, models.TrialUserAttributeModel, trial_id, attributes)

    def end(self, trial_id: int, state: TrialState, values: Sequence[float]) -> None:
        """Sets the final state and values of a running trial; an ended trial is not changed."""
        model = models.TrialValueModel
        written = [
            (index, *model.value_to_stored_repr(value)) for index, value in enumerate(values)
        ]
        rows = [
            {"objective": index, "value": value, "value_type": kind}
            for index, value, kind in written
        ]
        with self.engine.begin() as connection:
            ended = connection.execute(
                update(_TRIALS)
                .where(_TRIALS.c.trial_id == trial_id, _TRIALS.c.state == TrialState.RUNNING)
                .values(state=state, datetime_complete=datetime.now(UTC).replace(tzinfo=None))
            )
            if ended.rowcount:
                _add(connection, model, trial_id, rows)


_TRIALS: Any = models.TrialModel.__table__


def _add(
    connection: Connection, model: Any, trial_id: int, rows: Sequence[Mapping[str, Any]]
) -> None:
    if rows:
        complete = [{"trial_id": trial_id, **row} for row in rows]
        connection.execute(insert(model.__table__).on_conflict_do_nothing().values(complete))


def _add_attributes(
    connection: Connection, model: Any, trial_id: int, attributes: Mapping[str, Any]
) -> None:
    rows = [{"key": key, "value_json": json.dumps(value)} for key, value in attributes.items()]
    _add(connection, model, trial_id, rows)
