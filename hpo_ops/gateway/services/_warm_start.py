"""Warm start: copies the trials of an earlier study into the sampler of a new study."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hpo_ops.config import StudyConfig, StudyError
from hpo_ops.config.warm_start_section import STORAGE_NAME, STORAGE_VARIABLE, WarmStart
from hpo_ops.ledger import Ledger, StudyIdentity, StudyRecord, UnknownStudyError
from hpo_ops.ledger.study_sharing import may_share
from hpo_ops.samplers import warm_start_trials
from hpo_ops.samplers.optuna_storage import StorageError

if TYPE_CHECKING:
    from hpo_ops.gateway.services.proposals import Proposals

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asker:
    """The new study that requests a warm start.

    Attributes:
        identity: The new study's DAG, DAG run and task group.
        owner: The person who triggered the new study; None if no person did.
        share: DAGs with which the new study shares its trials.
    """

    identity: StudyIdentity
    owner: str | None = None
    share: tuple[str, ...] = ()

    @property
    def dag_id(self) -> str:
        """The id of the new study's DAG."""
        return self.identity.dag_id

    def is_same(self, record: StudyRecord) -> bool:
        """Checks whether a recorded study is the new study itself."""
        return self.identity == StudyIdentity(record.dag_id, record.run_id, record.task_group)


def read(
    proposals: Proposals,
    config: StudyConfig,
    asker: Asker,
    *,
    environment: Mapping[str, str] = os.environ,
) -> warm_start_trials.Source | None:
    """Reads the trials of the earlier study that a warm start names.

    Returns:
        The trials, or None if the new study has no warm start or has been warm-started already.

    Raises:
        StudyError: The earlier study does not exist, or cannot be used.
    """
    wanted = config.warm_start
    if wanted is None or _is_done(proposals, asker):
        return None
    directions = [metric.direction for metric in config.objectives]
    try:
        if wanted.storage is not None:
            url = _address(wanted.storage, environment)
            storage = warm_start_trials.open_existing_storage(url, shown=repr(wanted.storage))
            try:
                return warm_start_trials.read_source(
                    storage, wanted.study, shown=wanted.study, directions=directions
                )
            except StorageError as error:
                logger.warning("the storage %s cannot be read", wanted.storage, exc_info=error)
                raise ValueError(
                    f"warm_start.storage is {wanted.storage!r}, but cannot be read "
                    f"({type(error).__name__})"
                ) from error
            finally:
                storage.remove_session()
        record = _earlier(proposals.ledger, wanted, asker)
        if record is None and wanted.study == config.name and wanted.run is None:
            return warm_start_trials.Source(
                name=f"{config.name}, which has no earlier run", trials=()
            )
        if record is None:
            raise ValueError(_nothing_found(wanted))
        _check_metrics(record, config)
        return warm_start_trials.read_source(
            proposals.storage, record.key, shown=record.key, directions=directions
        )
    except (ValueError, UnknownStudyError) as error:
        raise StudyError(f"study {config.name}", [str(error)]) from error


def take(
    proposals: Proposals, record: StudyRecord, source: warm_start_trials.Source | None
) -> list[str]:
    """Adds the trials of an earlier study to the sampler of a new study.

    Args:
        proposals: The samplers of studies.
        record: The new study.
        source: The trials of the earlier study; None if they have been added already.

    Returns:
        Sentences for people: which trials were added, which were left out, and why. The list is
        empty if the new study has no warm start.
    """
    if record.config.warm_start is None:
        return []
    with proposals.ledger.sampler_lock(record.id):
        search = proposals.search(record)
        result = (
            warm_start_trials.copy_trials(search, source)
            if source is not None
            else warm_start_trials.find_result(search)
        )
    lines = [] if result is None else result.lines()
    for line in lines:
        logger.info("study %s, %s", record.key, line)
    return lines


def _nothing_found(wanted: WarmStart) -> str:
    run = "" if wanted.run is None else f" and warm_start.run is {wanted.run!r}"
    return (
        f"warm_start.study is {wanted.study!r}{run}, but there is no such study that this one may "
        "start from: one of the same DAG, one that the same person has triggered, or one whose "
        "DAG each of the two names under share"
    )


def _is_done(proposals: Proposals, asker: Asker) -> bool:
    try:
        record = proposals.ledger.find_run(asker.identity)
    except UnknownStudyError:
        return False
    return warm_start_trials.find_result(proposals.search(record)) is not None


def _address(storage: str, environment: Mapping[str, str]) -> str:
    """Returns the URL of an Optuna storage, which an operator has set in the environment.

    Args:
        storage: The name of the storage, as in the study's `warm_start.storage`.
        environment: The environment variables.

    Raises:
        ValueError: No URL is set for the name, or the study gives a URL in place of a name.
    """
    if not STORAGE_NAME.fullmatch(storage):
        raise ValueError("warm_start.storage is a URL, but must be a name")
    name = STORAGE_VARIABLE.format(storage.upper())
    if not environment.get(name):
        raise ValueError(f"warm_start.storage is {storage!r}, but the gateway has no {name}")
    return environment[name]


def _earlier(ledger: Ledger, wanted: WarmStart, asker: Asker) -> StudyRecord | None:
    """Finds the newest earlier study that a warm start names and the new study may use.

    Studies of the new study's DAG or owner take precedence over studies of other DAGs that share
    their trials with it. Study names are not unique: another person's study may have the same
    name.

    Args:
        ledger: The ledger.
        wanted: The name, and optionally the run id, of the earlier study.
        asker: The new study.

    Returns:
        The earlier study, or None if there is none that the new study may use.
    """
    shared: StudyRecord | None = None
    for record in ledger.named(wanted.study, run_id=wanted.run):
        if asker.is_same(record) or not may_share(asker, record):
            continue
        if may_share(replace(asker, share=()), record):
            return record
        shared = shared or record
    return shared


def _check_metrics(record: StudyRecord, config: StudyConfig) -> None:
    theirs = [metric.name for metric in record.config.objectives]
    ours = [metric.name for metric in config.objectives]
    if theirs != ours:
        raise ValueError(
            f"warm_start.study is {record.name!r}, but its metric is {', '.join(theirs)}, "
            f"and this study's is {', '.join(ours)}"
        )
