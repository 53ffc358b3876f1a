"""The eleven families of curves, against values of the paper's code."""

from __future__ import annotations

import numpy as np
import pytest

from hpo_ops.curves._curve_families import FAMILIES


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vap", 0.564631), ("ilog2", 0.600676), ("weibull", 0.157098), ("pow3", 0.331837),
        ("pow4", 0.332376), ("loglog_linear", 1.194706), ("mmf", 0.100006),
        ("janoschek", 0.492917), ("hill3", 0.536541), ("log_power", 0.319148),
        ("exp4", 0.608938),
    ],
)  # fmt: skip
def test_the_families_at_step_ten(name: str, value: float) -> None:  # HD-1
    family = next(family for family in FAMILIES if family.name == name)
    found = family(np.array([10.0]), *family.defaults.values())
    assert found[0] == pytest.approx(value, abs=1e-6)


def test_there_are_eleven_families_with_36_parameters() -> None:
    assert len(FAMILIES) == 11
    assert sum(len(family.defaults) for family in FAMILIES) == 36
