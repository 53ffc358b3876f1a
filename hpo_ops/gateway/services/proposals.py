"""Asking Optuna for parameters and telling it results, outside of a study's lock."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hpo_ops.config import StudyConfig
from hpo_ops.config.warm_start_section import fit_enqueued
from hpo_ops.gateway.services import score_cache, study_transitions, tell_sampler
from hpo_ops.ledger import Ledger, StudyRecord, StudySession
from hpo_ops.protocol import ParamValue
from hpo_ops.samplers.optuna_search import Search
from hpo_ops.samplers.optuna_storage import open_storage

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from sqlalchemy import Row


MAX_SEARCHES = 64
"""Studies whose search a process keeps in memory."""


@dataclass(frozen=True)
class Proposals:
    """The search side of studies. Asks of one study come one after the other."""

    ledger: Ledger

    @cached_property
    def storage(self) -> BaseStorage:
        """Optuna's tables in the ledger's database."""
        return open_storage(self.ledger.engine.url.render_as_string(hide_password=False))

    @contextmanager
    def proposed(self, study_id: int, numbers: Sequence[int]) -> Iterator[StudySession]:
        """The transaction in which trials that had no parameters get them.

        Before that, Optuna is told of every finished trial that it has not heard of, by number.
        A trial is reserved in the ledger before Optuna is asked: what was cut short is found
        again, and asked and told again with the same answer. So the folds of a trial, each of
        which asks for it, have the same parameters.
        """
        with self.ledger.asking(study_id) as asking:
            record, ended, rows = (
                asking.record,
                tell_sampler.untold(asking),
                asking.unasked(numbers),
            )
            search = self.search(record)
            for ending in ended:
                ending.tell(search)
            asked = {
                number: search.ask(number // record.config.fold_count, wanted=row.wanted)
                for number, row in rows.items()
            }
            with self.ledger.study(study_id) as session:
                session.mark_told([number for ending in ended for number in ending.numbers])
                for number, params in asked.items():
                    session.propose(number, params, **_identity(record, rows[number], params))
                    study_transitions.refuse_if_impossible(session, number)
                yield session

    def tell(self, study_id: int) -> None:
        """Tells Optuna of every finished trial that it has not heard of."""
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
    record: StudyRecord, row: Row[Any], params: Mapping[str, ParamValue]
) -> dict[str, Any]:
    """The seed and cache key of a trial; a copy's reports depend on its parent, so it has none."""
    known = score_cache.identity(record, params, fold=row.number % record.config.fold_count)
    return known if row.parent is None else {**known, "cache_key": None}
