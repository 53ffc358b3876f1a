"""Trials that were cut short, extended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpo_ops.core import Direction, TrialState
from hpo_ops.curves import ProjectedEnsemble
from hpo_ops.schedulers import Default
from hpo_ops.simulator import Cluster, Traces, TrialTrace, image_study, simulate
from hpo_ops.simulator.extrapolation import Unseen, fill_unseen, full_length_steps, reliance_of
from hpo_ops.simulator.recorded_history import history_of
from hpo_ops.simulator.traces import SegmentRecord, TrialRecord
from tests.recordings import recorded


def test_what_was_not_seen_costs_time_and_wins_nothing() -> None:
    traces = recorded(image_study(seed=4, trials=30, steps=27), cluster=Cluster(units=3))
    cut = [t for t in traces.trials if t.record and t.record.is_cut_short]
    assert cut
    held = fill_unseen(traces, Unseen.HOLD, last_step=27)
    assert {len(trial.values) for trial in held.trials} == {27}
    for before, after in zip(traces.trials, held.trials, strict=True):
        seen = len(before.values)
        assert after.values[:seen] == before.values
        assert set(after.values[seen:]) <= {before.values[-1]}
        assert sum(after.seconds[seen:]) == pytest.approx((27 - seen) * sum(before.seconds) / seen)
    replay = simulate(held, Default(), cluster=Cluster(units=3))
    relied = reliance_of(held, replay)
    assert len(relied.trials) == len(cut)
    assert relied.reports == sum(27 - len(trial.values) for trial in cut)
    assert relied.of == 30 * 27
    happened = history_of(traces)
    assert happened is not None
    assert replay.best[-1][1] == happened.best
    assert replay.makespan > happened.makespan


def test_other_rules_for_what_was_not_seen() -> None:
    traces = recorded(image_study(seed=4, trials=90, steps=27), cluster=Cluster(units=3))
    assert fill_unseen(traces, Unseen.CUT, last_step=27) is traces
    guessed = fill_unseen(
        traces, Unseen.FORECAST, last_step=27, predictor=ProjectedEnsemble(samples=200)
    )
    held = fill_unseen(traces, Unseen.HOLD, last_step=27)
    assert guessed != held
    assert [t.seconds for t in guessed.trials] == [t.seconds for t in held.trials]


def test_a_failed_trial_ends_where_it_failed() -> None:
    record = TrialRecord(0, TrialState.FAILED, (1.0,), (SegmentRecord(0.0, 1.0, 0, 1, "failed"),))
    trial = TrialTrace((0.1,), (1.0,), record=record)
    traces = Traces("one", "x", Direction.MAXIMIZE, (trial,))
    assert fill_unseen(traces, Unseen.HOLD, last_step=9) == traces
    paused = replace(trial, record=replace(record, state=TrialState.PAUSED))
    filled = fill_unseen(replace(traces, trials=(paused,)), Unseen.HOLD, last_step=9)
    assert len(filled.trials[0].values) == 9


def test_reports_with_gaps_between_their_steps() -> None:
    trial = TrialTrace((0.1, 0.2, 0.3), (5.0, 5.0, 5.0), steps=(5, 10, 15))
    traces = Traces("gaps", "x", Direction.MAXIMIZE, (trial,) * 4)
    replay = simulate(traces, Default(max_steps=10), cluster=Cluster(units=2))
    assert replay.makespan == 20.0
    assert [seen.step for seen in replay.study.trials[0].observations] == [5, 10]
    interrupted = simulate(
        traces, Default(), cluster=Cluster(units=4, preemptions=(12.0,), checkpoint_every=5)
    )
    assert interrupted.makespan == 12.0 + 5.0
    record = TrialRecord(0, TrialState.PRUNED, (5.0, 10.0), ())
    short = TrialTrace((0.1, 0.2), (5.0, 5.0), steps=(5, 10), record=record)
    filled = fill_unseen(replace(traces, trials=(trial, short)), Unseen.HOLD, last_step=20)
    assert filled.trials[1].steps == (5, 10, 15, 20)


def test_a_full_length_trial_is_as_long_as_completed_ones() -> None:
    traces = recorded(image_study(seed=4, trials=30, steps=27), cluster=Cluster(units=3))
    assert full_length_steps(traces) == 27
    pruned = tuple(
        trial for trial in traces.trials if trial.record is not None and trial.record.is_cut_short
    )
    assert traces.terms is not None
    said = replace(traces.terms, scheduler={"name": "asha", "max_steps": 81})
    assert full_length_steps(replace(traces, terms=said)) == 27
    assert full_length_steps(replace(traces, trials=pruned, terms=said)) == 81
    assert full_length_steps(replace(traces, trials=pruned, terms=None)) == max(
        len(trial.values) for trial in pruned
    )
