"""Synthetic traces."""

from __future__ import annotations

import pytest

from hpo_ops.simulator import (
    game_study,
    image_study,
    slow_study,
    uneven_study,
)


@pytest.mark.parametrize("make", [image_study, game_study, slow_study, uneven_study])
def test_synthetic_studies_follow_from_their_seed(make: object) -> None:
    assert callable(make)
    assert make(seed=1, trials=3, steps=4) == make(seed=1, trials=3, steps=4)
    assert make(seed=1, trials=3, steps=4) != make(seed=2, trials=3, steps=4)
