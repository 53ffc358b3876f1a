"""Cutoffs of rungs, against the plain way to compute them."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import takewhile

import pytest

from hpo_ops.core import Ranking, Study, TrialState
from hpo_ops.schedulers import AshaSpeculative
from hpo_ops.schedulers.rungs import crossed_rungs
from tests.schedulers.random_events import TRIALS, apply_event, random_events, study_after


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("eta", [2, 4])
def test_a_paused_trial_is_resumed_when_it_is_above_every_cutoff(seed: int, eta: int) -> None:
    scheduler = AshaSpeculative(max_steps=40, eta=eta)
    study = study_after(())
    for what in random_events(seed):
        if what.kind == "decided":
            continue
        apply_event(study, what)
        group = scheduler.next(study, TRIALS, 0.0)
        resumed = {member.trial for member in group.members if member.trial is not None}
        assert resumed == above_every_cutoff(study, scheduler)


def above_every_cutoff(study: Study, scheduler: AshaSpeculative) -> set[int]:
    """Those that are paused between rungs, and of each rung the best ones, by looking at all."""
    found, lines = set(), defaultdict(list)
    for trial in study.in_state(TrialState.PAUSED).values():
        arriving = crossed_rungs(trial, scheduler.rungs)
        is_above = all(
            score >= cut(study, rung, scheduler.eta, score if rung in arriving else None)
            for rung in scheduler.rungs
            if rung < scheduler.max_steps and (score := trial.score_at(rung)) is not None
        )
        if arriving:
            score = trial.score_at(arriving[-1]) or 0.0
            lines[arriving[-1]].append((-score, trial.number, is_above))
        elif is_above:
            found.add(trial.number)
    for line in lines.values():
        found |= {number for _, number, _ in takewhile(lambda item: item[2], sorted(line))}
    return found


def cut(study: Study, rung: int, eta: int, without: float | None) -> float:
    ranking = Ranking()
    for trial in study.trials:
        if (score := trial.score_at(rung)) is not None:
            ranking.add(score)
    if without is not None:
        ranking.remove(without)
    return ranking.quantile(1 - 1 / eta) if len(ranking) > 1 else -math.inf
