"""Asking Optuna for parameters and telling it results, outside of a study's lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, select

from hpo_ops.config.start import fit_enqueued
from hpo_ops.core import TrialState
from hpo_ops.gateway import rules
from hpo_ops.ledger import Ledger, StudyRecord
from hpo_ops.ledger.schema import trials
from hpo_ops.samplers.search import Search, open_storage

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from sqlalchemy import Row


@dataclass(frozen=True)
class Proposals:
    """The search side of studies. Asks of one study come one after the other."""

    ledger: Ledger

    @cached_property
    def storage(self) -> BaseStorage:
        """Optuna's tables in the ledger's database."""
        return open_storage(self.ledger.engine.url.render_as_string(hide_password=False))

    def propose(self, study_id: int, numbers: Sequence[int]) -> None:
        """Gives parameters to those of the trials that have none yet.

        The trial is reserved in the ledger before Optuna is asked, so that an ask that crashed
        is found again and gives the same answer.
        """
        with self.ledger.study(study_id) as session:
            record = session.record
            rows = session.trials(numbers)
            if all(row.params is not None for row in rows.values()):
                return
        with self.ledger.asking(study_id):
            with self.ledger.study(study_id) as session:
                rows = session.trials(numbers)
            search = self.search(record)
            for number in sorted(number for number, row in rows.items() if row.params is None):
                params = search.ask(number)
                with self.ledger.study(study_id) as session:
                    session.propose(number, params)
                    rules.refuse_if_impossible(session, number)

    def tell(self, study_id: int) -> None:
        """Tells Optuna of every finished trial that it has not heard of, by number."""
        query = (
            select(trials.c.number)
            .where(
                trials.c.study_id == study_id,
                trials.c.told.is_(False),
                trials.c.state.in_([state.value for state in TrialState if state.is_finished]),
            )
            .order_by(trials.c.number)
        )
        if not self._numbers(query):
            return
        with self.ledger.asking(study_id):  # two that tell of one trial would get in their way
            for number in self._numbers(query):
                self._tell_one(study_id, number)

    def _numbers(self, query: Select[int]) -> list[int]:
        with self.ledger.engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def _tell_one(self, study_id: int, number: int) -> None:
        with self.ledger.study(study_id) as session:
            record = session.record
            row = session.trials([number])[number]
            curve = session.curve(number)
        if row.params is not None:
            state = TrialState(row.state)
            values = _values(record, row)
            if state is TrialState.COMPLETED and values is None:
                state = TrialState.FAILED
            self.search(record).tell(
                number, state, values=values, curve=curve, violations=row.violations or ()
            )
        with self.ledger.study(study_id) as session:
            session.update_trial(number, told=True)

    def search(self, record: StudyRecord) -> Search:
        """A study's search in Optuna."""
        config = record.config
        return Search(
            storage=self.storage,
            name=record.key,
            space=config.space,
            directions=[metric.direction for metric in config.objectives],
            sampler=config.sampler.name,
            options=config.sampler.options,
            seed=config.seed,
            has_constraints=bool(config.constraints),
            code=config.code,
            enqueue=fit_enqueued(config.space, config.enqueue),
            is_warm=config.warm_start is not None,
        )


def _values(record: StudyRecord, row: Row[Any]) -> list[float] | None:
    """A trial's values: the best of one metric, the last of several (they belong together)."""
    if row.value is None:
        return None
    objectives = record.config.objectives
    if len(objectives) == 1:
        return [row.value]
    return [row.metrics[metric.name] for metric in objectives]
