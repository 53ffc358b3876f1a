"""Traces."""

from __future__ import annotations

import pytest

from hpo_ops.simulator import (
    TraceError,
    TrialTrace,
    image_study,
)


def test_trials_are_drawn_again_and_again() -> None:
    traces = image_study(seed=3, trials=5, steps=3)
    drawn = traces.resample(40, 1)
    assert len(drawn.trials) == 40
    assert set(map(id, drawn.trials)) <= set(map(id, traces.trials))
    assert traces.resample(40, 1) == drawn
    assert traces.resample(40, 2) != drawn


def test_a_trial_needs_steps_that_take_time() -> None:
    with pytest.raises(TraceError, match="no steps"):
        TrialTrace((), ())
    with pytest.raises(TraceError, match="took -1"):
        TrialTrace((0.1,), (-1.0,))


def test_an_order_is_a_permutation_and_repeats() -> None:
    traces = image_study(seed=3, trials=20, steps=2)
    assert traces.reorder(0) is traces
    assert traces.reorder(4) == traces.reorder(4)
    assert traces.reorder(4) != traces.reorder(5)
    key = lambda trial: trial.params["index"]  # noqa: E731
    assert sorted(traces.reorder(4).trials, key=key) == list(traces.trials)
