"""Random faults, by a fixed seed: no study loses, doubles or leaves anything."""

from __future__ import annotations

import pytest

from tests.e2e.chaos import Chaos, a_lab

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

FAULTS = 12
SEED = 14
WITHIN_SECONDS = 180.0
"""On a machine that runs other stacks at the same time; `make chaos` asks for 60 s."""


def test_studies_survive_random_kills_and_stops_of_every_process() -> None:
    with a_lab() as lab:
        outcome = Chaos(lab, seed=SEED).run(
            faults=FAULTS, seconds=None, within_seconds=WITHIN_SECONDS
        )
        print(outcome.table())
    assert len(outcome.faults) == FAULTS
    assert outcome.runs >= 2
    assert outcome.problems == []
