"""Predictors by name."""

from __future__ import annotations

import pytest

from hpo_ops.curves import ProjectedEnsemble, create_predictor


def test_predictors_have_names_and_checked_options() -> None:
    assert create_predictor("projected", {"seed": 3}) == ProjectedEnsemble(seed=3)
    with pytest.raises(ValueError, match=r"curves\.walkers is 10, but must be 96 or more"):
        create_predictor("mcmc", {"walkers": 10})
    with pytest.raises(ValueError, match=r"curves\.smoothness is 2.0, but must be from"):
        create_predictor("wandering", {"smoothness": 2})
    with pytest.raises(ValueError, match=r"curves\.name is 'other', but must be one of"):
        create_predictor("other", {})
