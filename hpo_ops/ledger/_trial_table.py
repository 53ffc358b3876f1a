"""Reads and writes the trials of one study, and the policies' decisions about these trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sqlalchemy import func, insert, select, update

from hpo_ops.core import Decision, TrialState
from hpo_ops.ledger import _schema
from hpo_ops.ledger._policy_view import EventKind
from hpo_ops.ledger._study_history import StudyHistory
from hpo_ops.ledger.rows import ServedFrom, TrialIdentity, TrialRow, read_trial
from hpo_ops.protocol import Action, ParamValue

UNCACHED = TrialIdentity()
"""Identity that keeps the trial's seed and excludes the trial from the score cache."""


class TrialTable:
    """The trials of one study, within one transaction that holds the study's lock.

    Only the gateway changes the state of a trial; tasks and agents send requests to the gateway. A
    trial is RUNNING from the time at which it gets a slot until the ledger records the end of its
    segment, even while no process trains it.
    """

    def __init__(self, history: StudyHistory) -> None:
        self._history = history
        self._connection = history.connection
        self._study_id = history.study_id

    # -- queries -----------------------------------------------------------------------------

    def find(self, number: int) -> TrialRow | None:
        """Returns a trial, or None if no trial with this number has been added."""
        return self.select([number]).get(number)

    def get(self, number: int) -> TrialRow:
        """Returns a trial by its number.

        Raises:
            KeyError: No trial with this number has been added.
        """
        return self.select([number])[number]

    def select(self, numbers: Sequence[int]) -> dict[int, TrialRow]:
        """Returns trials by number; numbers of trials that have not been added are left out."""
        table = _schema.trials
        rows = self._connection.execute(
            select(table)
            .where(table.c.study_id == self._study_id, table.c.number.in_(numbers))
            .order_by(table.c.number)
        )
        return {row.number: read_trial(row) for row in rows}

    def first_without_segment(self) -> int | None:
        """Returns the lowest number of a RUNNING trial without an open segment, or None."""
        trials, segments = _schema.trials, _schema.segments
        has_segment = (
            select(segments.c.id)
            .where(
                segments.c.study_id == trials.c.study_id,
                segments.c.trial == trials.c.number,
                segments.c.outcome.is_(None),
            )
            .exists()
        )
        number: int | None = self._connection.execute(
            select(func.min(trials.c.number)).where(
                trials.c.study_id == self._study_id,
                trials.c.state == TrialState.RUNNING.value,
                ~has_segment,
            )
        ).scalar_one()
        return number

    # -- commands ----------------------------------------------------------------------------

    def add(
        self,
        number: int,
        *,
        seed: int,
        parent: int | None = None,
        requested_params: Mapping[str, ParamValue] | None = None,
        is_retraining: bool = False,
    ) -> None:
        """Inserts a WAITING trial without hyperparameters.

        Args:
            number: Number of the new trial.
            seed: Seed of the new trial.
            parent: Number of the trial from whose checkpoint the new trial starts, if any.
            requested_params: Requested hyperparameters; None if the sampler chooses all of them.
            is_retraining: Whether the trial trains the best hyperparameters on all data; the
                sampler never receives the result of such a trial.
        """
        self._connection.execute(
            insert(_schema.trials).values(
                study_id=self._study_id,
                number=number,
                state=TrialState.WAITING.value,
                seed=seed,
                parent=parent,
                requested_params=None if requested_params is None else dict(requested_params),
                told=is_retraining,
            )
        )
        self._history.append(
            EventKind.TRIAL_ADDED, number, {"parent": parent, "is_retraining": is_retraining}
        )

    def propose(
        self,
        number: int,
        params: Mapping[str, ParamValue],
        identity: TrialIdentity = UNCACHED,
    ) -> None:
        """Records the hyperparameters of a trial, with its cache key and optionally a new seed."""
        values: dict[str, object] = {"params": dict(params), "cache_key": identity.cache_key}
        if identity.seed is not None:
            values["seed"] = identity.seed
        self._update(number, values)
        self._history.append(EventKind.TRIAL_PROPOSED, number, {"params": dict(params)})

    def give_slot(
        self, number: int, reason: str, *, until_step: int | None, group: int = 0
    ) -> None:
        """Sets a trial to RUNNING, so that it occupies one of the study's slots.

        Args:
            number: Number of the trial.
            reason: Why the scheduler chose this trial.
            until_step: Step at which the trial's segment ends; None for the training's own end.
            group: Number of the trial's group; some allocators divide the units by group.
        """
        self._move(number, TrialState.RUNNING, reason, group, {"until_step": until_step})

    def move(self, number: int, state: TrialState, reason: str, *, group: int = 0) -> None:
        """Sets the state of a trial. Callers must not change the state of a finished trial."""
        self._move(number, state, reason, group, {})

    def settle(
        self,
        number: int,
        state: TrialState,
        reason: str,
        *,
        group: int,
        failures: int,
        preemptions: int,
    ) -> None:
        """Sets a trial's state, number of failures and number of preemptions after a segment."""
        counts = {"failures": failures, "preemptions": preemptions}
        self._move(number, state, reason, group, counts)

    def record_progress(
        self,
        number: int,
        *,
        step: int,
        best_step: int | None,
        value: float,
        metrics: Mapping[str, float],
    ) -> None:
        """Records a trial's last reported step and metrics, and its best value with its step."""
        self._update(
            number,
            {"step": step, "best_step": best_step, "value": value, "metrics": dict(metrics)},
        )

    def record_violations(self, number: int, violations: Sequence[float]) -> None:
        """Records the amount by which a trial violates each constraint."""
        self._update(number, {"violations": list(violations)})

    def record_served(self, number: int, source: ServedFrom) -> None:
        """Records the source trial whose reports the score cache replayed into a trial."""
        self._update(number, {"served": asdict(source)})

    def mark_told(self, numbers: Sequence[int]) -> None:
        """Records that the sampler has received the results of trials."""
        if numbers:
            table = _schema.trials
            self._connection.execute(
                update(table)
                .where(table.c.study_id == self._study_id, table.c.number.in_(numbers))
                .values(told=True)
            )

    def record_decision(self, number: int, step: int, decision: Decision) -> None:
        """Records a decision about a trial, unless it equals the trial's previous decision."""
        last = self._last_decision(number)
        if last is not None and last[1] == decision:
            return
        values = {
            "step": step,
            "action": decision.action.value,
            "reason": decision.reason,
        }
        self._connection.execute(
            insert(_schema.decisions).values(study_id=self._study_id, trial=number, **values)
        )
        if decision.action is not Action.CONTINUE:
            self._history.append(EventKind.DECIDED, number, values)

    def _last_decision(self, number: int) -> tuple[int, Decision] | None:
        """Returns the last decision about a trial and its step, or None before a decision."""
        table = _schema.decisions
        row = self._connection.execute(
            select(table.c.step, table.c.action, table.c.reason)
            .where(table.c.study_id == self._study_id, table.c.trial == number)
            .order_by(table.c.id.desc())
            .limit(1)
        ).one_or_none()
        return None if row is None else (row.step, Decision(Action(row.action), row.reason))

    def _move(
        self,
        number: int,
        state: TrialState,
        reason: str,
        group: int,
        values: Mapping[str, object],
    ) -> None:
        ended = {"ended_at": func.now()} if state.is_finished else {}
        self._update(number, {**values, **ended, "state": state.value, "reason": reason})
        decided_step = None
        if state is TrialState.PAUSED and (last := self._last_decision(number)):
            decided_step = last[0] if last[1].action is Action.PAUSE else None
        data = {
            "state": state.value,
            "reason": reason,
            "decided_step": decided_step,
            "group": group,
        }
        self._history.append(EventKind.TRIAL_MOVED, number, data)

    def _update(self, number: int, values: Mapping[str, object]) -> None:
        table = _schema.trials
        self._connection.execute(
            update(table)
            .where(table.c.study_id == self._study_id, table.c.number == number)
            .values(**values)
        )
