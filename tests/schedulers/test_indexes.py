"""Indexes of schedulers: queries at any time give the same answers."""

from __future__ import annotations

import pytest

from hpo_ops.core import Scheduler
from hpo_ops.schedulers import AshaPromoting, AshaSpeculative, Halving, Hyperband, HyperSched
from tests.schedulers.random_events import TRIALS, apply_event, random_events, study_after


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "scheduler",
    [
        AshaPromoting(max_steps=40, eta=2),
        AshaSpeculative(max_steps=40, eta=2),
        AshaSpeculative(max_steps=64, eta=4),
        Halving(max_steps=40, eta=2),
        Hyperband(max_steps=27),
        HyperSched(max_steps=40, eta=2),
    ],
    ids=str,
)
def test_asking_all_along_gives_the_same_as_asking_once(scheduler: Scheduler, seed: int) -> None:
    seen = random_events(seed)
    asked = study_after(())
    for count, what in enumerate(seen, start=1):
        apply_event(asked, what)
        group = scheduler.next(asked, TRIALS, 0.0)
        if count % 4:
            continue
        fresh = study_after(seen[:count])
        assert group == scheduler.next(fresh, TRIALS, 0.0)
        ours, theirs = asked.trials[what.trial], fresh.trials[what.trial]
        if ours.observations:
            assert scheduler.on_report(asked, ours, 0.0) == scheduler.on_report(fresh, theirs, 0.0)
