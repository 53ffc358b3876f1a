"""What schedulers keep up about a study: the same as looking at all of it anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core import Goal, Scheduler, Study, TrialState
from hpo_ops.schedulers import AshaPromoting, AshaSpeculative, Halving, Hyperband, HyperSched

TRIALS = 8


class Happening(NamedTuple):
    """A trial reports so many steps later, or starts, or pauses, perhaps by a decision."""

    trial: int
    kind: str
    steps: int
    value: float


happenings = st.lists(
    st.builds(
        Happening,
        st.integers(0, TRIALS - 1),
        st.sampled_from(("report", "report", "report", "start", "pause", "decided")),
        st.integers(1, 3),
        st.sampled_from((0.1, 0.2, 0.3, 0.4, 0.5)),
    ),
    max_size=80,
)


def begin() -> Study:
    study = Study(Goal(trials=TRIALS))
    for _ in range(TRIALS):
        study.add()
    return study


def happen(study: Study, what: Happening) -> None:
    trial = study.trials[what.trial]
    if what.kind == "report":
        study.record(trial.number, trial.step + what.steps, what.value, 1.0)
    elif what.kind == "start":
        study.start(trial.number)
    elif trial.observations:
        decided = trial.step if what.kind == "decided" else None
        study.move(trial.number, TrialState.PAUSED, decided_step=decided)


@pytest.mark.parametrize(
    "scheduler",
    [
        AshaPromoting(max_steps=20, eta=2),
        AshaSpeculative(max_steps=20, eta=2),
        AshaSpeculative(max_steps=16, eta=4),
        Halving(max_steps=20, eta=2),
        Hyperband(max_steps=9),
        HyperSched(max_steps=20, eta=2),
    ],
    ids=str,
)
@given(seen=happenings)
def test_asking_all_along_gives_the_same_as_asking_once(
    scheduler: Scheduler, seen: Sequence[Happening]
) -> None:
    asked, fresh = begin(), begin()
    for what in seen:
        happen(asked, what)
        scheduler.next(asked, 3, 0.0)
        if asked.trials[what.trial].observations:
            scheduler.on_report(asked, asked.trials[what.trial], 0.0)
        happen(fresh, what)
    assert scheduler.next(asked, TRIALS, 0.0) == scheduler.next(fresh, TRIALS, 0.0)
    for ours, theirs in zip(asked.trials, fresh.trials, strict=True):
        if ours.observations:
            assert scheduler.on_report(asked, ours, 0.0) == scheduler.on_report(fresh, theirs, 0.0)
