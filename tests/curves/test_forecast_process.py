"""The process that fits curves beside a training."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hpo_ops.curves.forecast_process import answer_path, fit
from hpo_ops.protocol import CurveForecast, ForecastOrder
from tests.curves.made_curves import rising

CURVE = [(seen.step, seen.score) for seen in rising(count=12)]


def order(predictor: str = "projected", *, is_maximized: bool = True) -> ForecastOrder:
    return ForecastOrder(
        every=4, last_step=40, is_maximized=is_maximized, seed=3, predictor=predictor, options={}
    )


def test_a_curve_gets_quantiles_up_to_the_last_step() -> None:
    made = fit(order(), CURVE)
    assert (made.step, made.steps[0], made.steps[-1]) == (12, 13, 40)
    assert len(made.quantiles) == len(made.steps)
    assert not made.note


def test_the_same_request_gets_the_same_answer() -> None:
    assert fit(order(), CURVE) == fit(order(), CURVE)


def test_a_minimised_metric_is_fitted_as_scores() -> None:
    falling = [(step, -value) for step, value in CURVE]
    assert fit(order(is_maximized=False), falling).quantiles == fit(order(), CURVE).quantiles


def test_too_few_reports_give_a_note() -> None:
    made = fit(order(), CURVE[:2])
    assert made.note == "the fit to 2 reports gave no forecast"
    assert not made.steps


def test_an_unknown_predictor_gives_a_note() -> None:
    assert "curves.name is 'other'" in fit(order("other"), CURVE).note


def test_a_missing_package_gives_a_note_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "emcee", None)
    assert "pip install 'hpo-ops[curves]'" in fit(order("mcmc"), CURVE).note


def test_the_process_answers_each_request_and_ends_with_its_input(tmp_path: Path) -> None:
    request = tmp_path / "one.json"
    request.write_text(json.dumps({"order": order().to_dict(), "curve": CURVE}))
    command = [sys.executable, "-m", "hpo_ops.curves.forecast_process"]
    subprocess.run(command, input=f"{request}\n", text=True, check=True, timeout=60)
    answer = CurveForecast.from_json(answer_path(request).read_bytes())
    assert answer == fit(order(), CURVE)
