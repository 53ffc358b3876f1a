"""Warm start of a study: where its trials come from."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from hpo_ops.config import StudyConfig, StudyError
from hpo_ops.config.start import STORAGE_NAME, STORAGE_VARIABLE, WarmStart
from hpo_ops.ledger import Ledger, StudyRecord
from hpo_ops.ledger.ledger import UnknownStudyError
from hpo_ops.samplers import warm

if TYPE_CHECKING:
    from hpo_ops.gateway.proposals import Proposals

logger = logging.getLogger(__name__)


def read(
    proposals: Proposals,
    config: StudyConfig,
    *,
    run_id: str,
    environment: Mapping[str, str] = os.environ,
) -> warm.Source | None:
    """The study to start from; None if there is none, or if it has been read before.

    Raises:
        StudyError: It cannot be used.
    """
    wanted = config.warm_start
    if wanted is None or _is_done(proposals, config, run_id):
        return None
    directions = [metric.direction for metric in config.objectives]
    try:
        if wanted.storage is not None:
            url = _address(wanted.storage, environment)
            storage = warm.open_other(url, shown=repr(wanted.storage))
            try:
                return warm.read_source(
                    storage, wanted.study, shown=wanted.study, directions=directions
                )
            except SQLAlchemyError as error:
                logger.warning("the storage %s cannot be read", wanted.storage, exc_info=error)
                raise ValueError(
                    f"warm_start.storage is {wanted.storage!r}, but cannot be read "
                    f"({type(error).__name__})"
                ) from error
            finally:
                storage.remove_session()
        record = _earlier(proposals.ledger, wanted, config.name, run_id)
        if record is None and wanted.study == config.name:
            return warm.Source(name=f"{config.name}, which has no earlier run", trials=())
        if record is None:
            raise ValueError(f"warm_start.study is {wanted.study!r}, but there is no such study")
        _check_metrics(record, config)
        return warm.read_source(
            proposals.storage, record.key, shown=record.key, directions=directions
        )
    except (ValueError, UnknownStudyError) as error:
        raise StudyError(f"study {config.name}", [str(error)]) from error


def take(proposals: Proposals, record: StudyRecord, source: warm.Source | None) -> list[str]:
    """Makes a study know the trials of another; says what was taken and what was left out."""
    if record.config.warm_start is None:
        return []
    with proposals.ledger.asking(record.id):
        search = proposals.search(record)
        result = warm.take(search, source) if source is not None else warm.earlier(search)
    lines = [] if result is None else result.lines()
    for line in lines:
        logger.info("study %s, %s", record.key, line)
    return lines


def _is_done(proposals: Proposals, config: StudyConfig, run_id: str) -> bool:
    try:
        record = proposals.ledger.find(config.name, run_id)
    except UnknownStudyError:
        return False
    return warm.earlier(proposals.search(record)) is not None


def _address(storage: str, environment: Mapping[str, str]) -> str:
    """The address that the operator gave a storage's name: no study names one itself."""
    if not STORAGE_NAME.fullmatch(storage):
        raise ValueError("warm_start.storage is an address, but must be a name")
    name = STORAGE_VARIABLE.format(storage.upper())
    if not environment.get(name):
        raise ValueError(f"warm_start.storage is {storage!r}, but the gateway has no {name}")
    return environment[name]


def _earlier(ledger: Ledger, wanted: WarmStart, name: str, run_id: str) -> StudyRecord | None:
    """The run that is named, or else the newest one but this study's own."""
    if wanted.run is not None:
        return ledger.find(wanted.study, wanted.run)
    for record in ledger.recent():
        if record.name == wanted.study and (record.name, record.run_id) != (name, run_id):
            return record
    return None


def _check_metrics(record: StudyRecord, config: StudyConfig) -> None:
    theirs = [metric.name for metric in record.config.objectives]
    ours = [metric.name for metric in config.objectives]
    if theirs != ours:
        raise ValueError(
            f"warm_start.study is {record.name!r}, but its metric is {', '.join(theirs)}, "
            f"and this study's is {', '.join(ours)}"
        )
