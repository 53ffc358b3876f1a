"""Parameters in bins: every value has one, every draw is allowed, the scale is kept."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo_ops.core.param_fitting import fit
from hpo_ops.core.search_space import Categorical, Float, Int, Parameter, Space
from hpo_ops.samplers._parameter_bins import to_axis


@st.composite
def parameters(draw: st.DrawFn) -> Parameter:
    kind = draw(st.sampled_from(["float", "log", "stepped", "int", "log int", "choices"]))
    if kind == "choices":
        return Categorical(choices=tuple(range(draw(st.integers(1, 9)))))
    if kind in ("float", "stepped"):
        low = draw(st.floats(-1e3, 1e3))
        high = low + draw(st.one_of(st.just(0.0), st.floats(1e-6, 1e3)))
        step = draw(st.floats(0.01, 50)) if kind == "stepped" else None
        return Float(low=low, high=high, step=step)
    if kind == "log":
        low = draw(st.floats(1e-6, 1e3))
        return Float(low=low, high=low * draw(st.floats(1, 1e6)), log=True)
    start = draw(st.integers(1, 100))
    end = start + draw(st.integers(0, 10**6))
    if kind == "log int":
        return Int(low=start, high=end, log=True)
    return Int(low=-start, high=end, step=draw(st.integers(1, 1000)))


@given(parameters(), st.integers(2, 20), st.integers(0, 1000))
def test_a_draw_of_a_bin_is_allowed_and_in_that_bin(
    parameter: Parameter, bins: int, seed: int
) -> None:
    axis = to_axis(parameter, bins)
    random = Random(seed)  # noqa: S311
    assert sum(axis.priors) == pytest.approx(1)
    assert min(axis.priors) > 0
    if axis.is_ordered:
        assert len(axis.priors) <= bins
    for index in range(len(axis.priors)):
        value = axis.decode(index, random)
        assert fit(Space({"x": parameter}), {"x": value}) == ({"x": value}, [])
        assert abs(axis.encode(value) - index) <= (0 if not isinstance(parameter, Float) else 1)


@pytest.mark.parametrize(
    ("parameter", "priors"),
    [
        (Categorical(choices=("a", "b", None)), [1 / 3] * 3),
        (Int(low=2, high=5), [1 / 4] * 4),
        (Int(low=0, high=100, step=50), [1 / 3] * 3),
        (Float(low=0, high=1, step=0.5), [1 / 3] * 3),
        (Float(low=1e-4, high=1, log=True), [1 / 4] * 4),
        (Float(low=3, high=3), [1.0]),
        # Optuna draws integers on a logarithmic scale from 0.5 below to 0.5 above.
        (Int(low=1, high=2, log=True), [0.6826, 0.3174]),
    ],
)
def test_a_bin_has_its_share_of_the_scale(parameter: Parameter, priors: list[float]) -> None:
    assert list(to_axis(parameter, 4).priors) == pytest.approx(priors, abs=1e-3)


def test_a_logarithmic_range_of_whole_numbers_is_drawn_as_such() -> None:
    axis = to_axis(Int(low=1, high=1000, log=True), 8)
    random = Random(0)  # noqa: S311
    draws = [
        axis.decode(random.choices(range(len(axis.priors)), axis.priors)[0], random)
        for _ in range(4000)
    ]
    decades = Counter(len(str(value)) for value in draws)
    assert 0.3 < decades[2] / 4000 < 0.36  # log(99.5 / 9.5) / log(1000.5 / 0.5)
