"""The published ensemble, sampled by Markov chains."""

from __future__ import annotations

from hpo_ops.curves import CurvePredictor, McmcEnsemble
from tests.contracts.curve_predictor import CurvePredictorContract


class TestMcmcEnsemble(CurvePredictorContract):
    def make(self) -> CurvePredictor:
        return McmcEnsemble(steps=300, burn_in=200)
