"""Asks Optuna's samplers for the parameters of trials, and tells them the trials' results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hpo_ops.config import StudyConfig
from hpo_ops.config.warm_start_section import fit_enqueued
from hpo_ops.gateway.services import _score_cache, _study_transitions, _tell_sampler
from hpo_ops.ledger import Ledger, StudyRecord, StudyTransaction
from hpo_ops.ledger.rows import TrialIdentity, TrialRow
from hpo_ops.protocol import ParamValue
from hpo_ops.samplers.optuna_search import Search
from hpo_ops.samplers.optuna_storage import open_storage

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


MAX_SEARCHES = 64
"""The largest number of studies whose Optuna search a process caches in memory."""


@dataclass(frozen=True)
class Proposals:
    """Asks Optuna's samplers for the parameters of trials, and tells them the trials' results.

    Both happen under the study's sampler lock, so that requests to one sampler do not overlap.
    The lock of the study itself is not held meanwhile, since a sampler may take seconds.
    """

    ledger: Ledger

    @cached_property
    def storage(self) -> BaseStorage:
        """The Optuna storage, whose tables are in the ledger's database."""
        return open_storage(self.ledger.url)

    @contextmanager
    def proposed(self, study_id: int, numbers: Sequence[int]) -> Iterator[StudyTransaction]:
        """Proposes parameters for trials, and yields the study's transaction that records them.

        First, Optuna receives the results of all finished trials that it does not know yet, in the
        order of their numbers. Trials are in the ledger before Optuna proposes their parameters;
        after a crash in between, Optuna proposes the same parameters again. All folds of a trial
        have the same parameters, since Optuna counts them as one trial.

        Args:
            study_id: The study.
            numbers: Trials that need parameters. Earlier trials without parameters get parameters
                too, since Optuna proposes in the order of trial numbers.
        """
        with self.ledger.sampler_lock(study_id) as sampler:
            record = sampler.record
            results = _tell_sampler.untold_results(sampler)
            rows = sampler.trials_without_params(numbers)
            search = self.search(record)
            for result in results:
                result.tell(search)
            proposed = {
                number: search.ask(number // record.config.fold_count, wanted=row.requested_params)
                for number, row in rows.items()
            }
            with self.ledger.study(study_id) as session:
                session.trials.mark_told([number for item in results for number in item.numbers])
                for number, params in proposed.items():
                    identity = _identity(record, rows[number], params)
                    session.trials.propose(number, params, identity)
                    _study_transitions.refuse_if_impossible(session, number)
                yield session

    def tell(self, study_id: int) -> None:
        """Tells Optuna the results of all finished trials that it does not know yet."""
        with self.proposed(study_id, []):
            pass

    def search(self, record: StudyRecord) -> Search:
        """Returns the object that asks and tells a study's Optuna sampler.

        The object is cached until the study's configuration changes.
        """
        config, search = self._searches.get(record.key, (None, None))
        if search is None or config is not record.config:
            search = self._make_search(record.key, record.config)
        self._searches[record.key] = record.config, search
        while len(self._searches) > MAX_SEARCHES:
            self._searches.popitem(last=False)
        return search

    @cached_property
    def _searches(self) -> OrderedDict[str, tuple[StudyConfig, Search]]:
        return OrderedDict()

    def _make_search(self, key: str, config: StudyConfig) -> Search:
        return Search(
            storage=self.storage,
            name=key,
            space=config.space,
            directions=[metric.direction for metric in config.objectives],
            sampler=config.sampler.name,
            options=config.sampler.options,
            seed=config.seed,
            has_constraints=bool(config.constraints),
            code=config.code or "",
            enqueue=fit_enqueued(config.space, config.enqueue),
            is_warm=config.warm_start is not None,
        )


def _identity(
    record: StudyRecord, row: TrialRow, params: Mapping[str, ParamValue]
) -> TrialIdentity:
    """Returns the seed of a trial and its key in the score cache.

    A copy (in population-based training) has no cache key: its reports depend on its parent.
    """
    identity = _score_cache.identity(record, params, fold=row.number % record.config.fold_count)
    return identity if row.parent is None else replace(identity, cache_key=None)
