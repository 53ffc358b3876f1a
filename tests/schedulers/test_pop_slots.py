"""POP's division of slots, against worked examples."""

from __future__ import annotations

import pytest

from hpo_ops.schedulers._pop_slots import divide_slots


@pytest.mark.parametrize(
    ("chances", "places", "k", "threshold", "effective", "slots", "promising"),
    [
        ([0.9, 0.8, 0.8, 0.5, 0.3, 0.1], 4, 1, 0.8, 3.0, 3, 3),
        ([0.9, 0.8, 0.8, 0.5, 0.3, 0.1], 15, 1, 0.3, 4.5, 4, 5),
        ([0.08, 0.06, 0.06, 0.05], 4, 1, 0.08, 0.32, 0, 0),
        ([0.95, 0.9, 0.2], 8, 2, 0.9, 4.0, 4, 2),
        ([0.6] * 4, 5, 1, 0.6, 3.0, 3, 4),
    ],
)
def test_the_slot_table(  # HD-3
    chances: list[float],
    places: int,
    k: int,
    threshold: float,
    effective: float,
    slots: int,
    promising: int,
) -> None:
    division = divide_slots(chances, places, k)
    assert division.threshold == threshold
    assert division.effective == pytest.approx(effective)
    assert division.slots == slots
    assert sum(division.is_promising(chance) for chance in chances) == promising
