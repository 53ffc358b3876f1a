"""The search of a study: asks Optuna for parameters and tells it results."""

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
"""Studies whose search a process keeps in memory."""


@dataclass(frozen=True)
class Proposals:
    """Asks Optuna for parameters of trials, and tells it how trials ended.

    Both happen under the study's sampler lock, one request after the other, and outside of the
    study's own lock, since a sampler may take seconds.
    """

    ledger: Ledger

    @cached_property
    def storage(self) -> BaseStorage:
        """Optuna's tables in the ledger's database."""
        return open_storage(self.ledger.url)

    @contextmanager
    def proposed(self, study_id: int, numbers: Sequence[int]) -> Iterator[StudyTransaction]:
        """The transaction in which trials get the parameters that they lack.

        Before that, Optuna is told of every finished trial that it was not told of yet, by number.
        A trial is reserved in the ledger before Optuna is asked. After a crash in between, the
        same question is asked again and has the same answer. Each fold of a trial asks for the
        trial, so that all folds have the same parameters.

        Args:
            study_id: The study.
            numbers: Trials that need parameters. Those before them that lack them get theirs too,
                since Optuna is asked in the order of the numbers.
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
        """Tells Optuna of every finished trial that it was not told of yet."""
        with self.proposed(study_id, []):
            pass

    def search(self, record: StudyRecord) -> Search:
        """A study's search in Optuna."""
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
    """The seed and cache key of a trial. A copy has no key: its reports depend on its parent."""
    identity = _score_cache.identity(record, params, fold=row.number % record.config.fold_count)
    return identity if row.parent is None else replace(identity, cache_key=None)
