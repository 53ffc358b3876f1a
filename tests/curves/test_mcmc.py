"""The published ensemble, sampled by Markov chains."""

from __future__ import annotations

import sys

import pytest

from hpo_ops.curves import CurvePredictor, McmcEnsemble, MissingPackageError
from tests.contracts.curve_predictor import CurvePredictorContract
from tests.curves.made_curves import rising


class TestMcmcEnsemble(CurvePredictorContract):
    def make(self) -> CurvePredictor:
        return McmcEnsemble(steps=300, burn_in=200)


def test_a_missing_emcee_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "emcee", None)
    predictor = McmcEnsemble(steps=300, burn_in=200)
    with pytest.raises(MissingPackageError, match=r"pip install 'hpo-ops\[curves\]'"):
        predictor.predict(rising(), last_step=60)
