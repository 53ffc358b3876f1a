"""The projected ensemble: a grid of curve shapes, with a closed form for the other parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hpo_ops.core import Observation
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.curves.forecast import QuantileForecast, future_steps

Array = NDArray[np.float64]
MAX_POINTS = 200
NOISES = 10


@dataclass(frozen=True)
class Shapes:
    """The shape parameters of the curves of an ensemble; each array has one entry for each curve.

    Attributes:
        kinds: Index of the curve's kind of shape (its formula) in ``_SHAPES``.
        first: First parameter of the formula; 0 if the formula has no parameters.
        second: Second parameter of the formula; 0 if the formula has no second parameter.
        log_prior: Logarithm of the curve's prior weight; the weight of a kind of shape is divided
            equally among the curves of that kind.
    """

    kinds: NDArray[np.int64]
    first: Array
    second: Array
    log_prior: Array

    def evaluate(self, times: Array) -> Array:
        """Returns each curve (row) at each time (column).

        Each curve is scaled to 1 at the first time and 0 at the last time.
        """
        table = np.empty((len(self.kinds), len(times)))
        for kind, function in enumerate(_SHAPES):
            rows = self.kinds == kind
            a, b = self.first[rows, None], self.second[rows, None]
            table[rows] = function(times, a, b)
        ends = table[:, -1:]
        return (table - ends) / (table[:, :1] - ends)


# All eleven families are linear in two of their parameters once the others are given.
_SHAPES: tuple[Callable[[Array, Array, Array], Array], ...] = (
    lambda x, a, b: x**-a,  # pow3
    lambda x, a, b: (x + b) ** -a,  # pow4
    lambda x, a, b: 1 / np.log(x + 1) + 0 * a,  # ilog2
    lambda x, a, b: np.exp(-((a * x) ** b)),  # weibull, janoschek, exp4
    lambda x, a, b: 1 / (1 + (a * x) ** b),  # mmf, hill3, log_power
    lambda x, a, b: -np.log(np.log(x) + a),  # loglog_linear
    lambda x, a, b: -np.exp(a / x) * x**b,  # vap
)


ONCE = (1, 1, 1, 1, 1, 1, 1)
FAMILIES = (1, 1, 1, 3, 3, 1, 1)
"""For each kind of shape, how many of the eleven families have it."""


@cache
def make_shapes(rates: int = 16, weights: tuple[int, ...] = ONCE) -> Shapes:
    """Creates the grid of curve shapes of an ensemble.

    Args:
        rates: Number of grid values of the rate (the factor of the step in a formula), for the
            kinds of shape that have a rate.
        weights: Prior weight of each kind of shape in ``_SHAPES``.
    """
    speeds = np.geomspace(0.003, 2, rates)
    grids: list[list[tuple[float, float]]] = [
        [(a, 0.0) for a in np.geomspace(0.05, 3, 16)],
        [(a, b) for a in np.geomspace(0.1, 5, 10) for b in (0.5, 2, 5, 15, 40)],
        [(0.0, 0.0)],
        [(a, b) for a in speeds for b in (0.3, 0.45, 0.6, 0.8, 1, 1.3, 1.7, 2.3, 3)],
        [(a, b) for a in speeds for b in (0.4, 0.7, 1, 1.4, 2, 2.8, 4, 6)],
        [(a, 0.0) for a in np.geomspace(0.05, 5, 8)],
        [
            (a, b)
            for a in (-0.05, -0.2, -0.47, -1, -2, -4, -8)
            for b in (0.001, 0.02, 0.042, 0.1, 0.2, 0.4)
        ],
    ]
    kinds = np.concatenate([np.full(len(grid), kind) for kind, grid in enumerate(grids)])
    pairs = np.array([pair for grid in grids for pair in grid])
    log_prior = np.concatenate(
        [
            np.full(len(grid), np.log(weight / len(grid)))
            for grid, weight in zip(grids, weights, strict=True)
        ]
    )
    return Shapes(kinds, pairs[:, 0], pairs[:, 1], log_prior)


@dataclass(frozen=True, kw_only=True)
class ProjectedEnsemble:
    """Forecasts a curve by a mixture of eleven curve families, without Markov chains.

    Given its shape parameters, each of the eleven families (Domhan et al., IJCAI 2015) is linear
    in its scores at the first and at the last step. So the shape parameters are put on a grid and
    both end scores are integrated out in closed form, for each of several noise levels; every
    curve is weighted by its marginal likelihood, and the mixture is sampled. As in the paper later
    points weigh more. This takes milliseconds; sampling all parameters with Markov chains takes
    seconds.

    Priors, in units of the range of the observed scores: the score at the last step is normal
    with the newest score plus ``gain`` as mean and ``spread`` as standard deviation; the score at
    the first step is normal with the first observed score as mean and standard deviation 1.
    Deviations that no family can express are added as noise that grows with the forecast horizon:
    ``doubt`` times the predicted change, and ``drift`` times the range and the square root of
    log(future step / newest step). The drift is larger upwards and smaller downwards by ``skew``,
    since curves rise more often than they fall beyond what the families predict.

    Attributes:
        seed: Seed of the samples.
        samples: Number of samples of the mixture.
        min_points: Smallest number of observations for a forecast.
        gain: Prior mean of the increase from the newest score to the score at the last step.
        spread: Prior standard deviation of the score at the last step.
        doubt: Noise of the forecast, as a share of the predicted change.
        drift: Noise of the forecast that grows with the forecast horizon, as a share of the range
            of the observed scores.
        skew: Share by which the drift is larger upwards and smaller downwards.
        recency: The newest point weighs about 10 to this power times as much as the first point.
        temper: Mean weight of a point in the likelihood; less than 1, since the errors of
            neighbouring points are correlated.
    """

    seed: int = 0
    samples: int = 2000
    min_points: int = 4
    gain: float = 0.2
    spread: float = 0.7
    doubt: float = 0.3
    drift: float = 0.05
    skew: float = 0.75
    recency: float = 1.0
    temper: float = 0.5

    def __post_init__(self) -> None:
        check_at_least("samples", self.samples, 100)
        check_at_least("min_points", self.min_points, 3)

    def predict(
        self, observations: Sequence[Observation], *, last_step: int
    ) -> QuantileForecast | None:
        steps, scores = usable_points(observations)
        if len(steps) < self.min_points:
            return None
        sheet = lay_out(steps, scores, last_step=last_step, shapes=make_shapes())
        if sheet is None:
            return None
        return QuantileForecast.from_samples(sheet.future, self._sample(sheet, len(observations)))

    def _sample(self, sheet: Sheet, reports: int) -> Array:
        """Samples curves from the posterior.

        Returns the scores of each sampled curve (row) at each future step (column).
        """
        table, times, count = sheet.table, sheet.times, len(sheet.scores)
        posterior = self._project(table[:, :count], sheet.log_prior, sheet.scores)
        random = np.random.default_rng((self.seed, reports))
        positions = (np.arange(self.samples) + random.random()) / self.samples
        chosen = np.searchsorted(np.cumsum(posterior.weights), positions)
        chosen = random.permutation(np.minimum(chosen, posterior.weights.size - 1))
        shape, noise = chosen // NOISES, posterior.noises[chosen % NOISES]
        z_last, z_first, z_noise = random.standard_normal((3, self.samples))
        last = posterior.last[chosen] + posterior.root_last[chosen] * z_last
        first = (
            posterior.first[chosen]
            + posterior.root_cross[chosen] * z_last
            + posterior.root_first[chosen] * z_first
        )
        to_go = table[shape, count - 1 :]
        curves = last[:, None] * (1 - to_go) + first[:, None] * to_go
        change = np.abs(curves[:, 1:] - curves[:, :1])
        drift = self.drift * np.sqrt(np.log(times[count:] / times[count - 1]))
        side = 1 + self.skew * np.sign(z_noise)
        doubt = self.doubt * change + np.outer(side, drift)
        deviation = np.sqrt(noise[:, None] ** 2 + doubt**2)
        return sheet.restore(curves[:, 1:] + deviation * z_noise[:, None])

    def _project(self, to_go: Array, log_prior: Array, scores: Array) -> Posterior:
        """Returns the posterior of the curve's scores at its first and its last step.

        The posterior has one entry for each combination of shape and noise level.
        """
        count = len(scores)
        weights = 10 ** (self.recency * np.arange(count) / count)
        weights *= self.temper / weights.mean()
        gone = 1 - to_go
        noises = np.geomspace(2e-3, 0.5, NOISES)
        precision = 1 / noises**2
        prior_last = 1 / self.spread**2
        p_last = np.outer((weights * gone * gone).sum(axis=1), precision) + prior_last
        p_cross = np.outer((weights * gone * to_go).sum(axis=1), precision)
        p_first = np.outer((weights * to_go * to_go).sum(axis=1), precision) + 1.0
        b_last = np.outer(gone @ (weights * scores), precision) + prior_last * self.gain
        b_first = np.outer(to_go @ (weights * scores), precision) + scores[0]
        determinant = p_last * p_first - p_cross**2
        last = (p_first * b_last - p_cross * b_first) / determinant
        first = (p_last * b_first - p_cross * b_last) / determinant
        squares = (weights * scores**2).sum() * precision + prior_last * self.gain**2
        misfit = squares + scores[0] ** 2 - (last * b_last + first * b_first)
        log_weight = (
            -0.5 * misfit
            - 0.5 * np.log(determinant)
            - weights.sum() * np.log(noises)
            + log_prior[:, None]
        ).ravel()
        chance = np.exp(log_weight - log_weight.max())
        root_last = np.sqrt(p_first / determinant)
        root_cross = -p_cross / determinant / root_last
        rest = np.maximum(p_last / determinant - root_cross**2, 0.0)
        return Posterior(
            weights=chance / chance.sum(),
            noises=noises,
            last=last.ravel(),
            first=first.ravel(),
            root_last=root_last.ravel(),
            root_cross=root_cross.ravel(),
            root_first=np.sqrt(rest).ravel(),
        )


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """A mixture of normal distributions of a curve's scores at its first and last step.

    The arrays have one entry for each combination of shape and noise level.
    """

    weights: Array
    noises: Array
    last: Array
    first: Array
    root_last: Array
    root_cross: Array
    root_first: Array


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """An observed curve, with the grid of shapes evaluated at observed and future steps.

    Attributes:
        scores: The observed scores minus the newest score, in units of the scores' range.
        times: Observed and future steps, in units of the first observed step.
        future: The future steps.
        table: Each shape (row) at each time, scaled to 1 at the first time and 0 at the last.
        log_prior: Logarithm of the prior weight of each shape.
        newest: The newest score.
        scale: The range of the observed scores.
    """

    scores: Array
    times: Array
    future: tuple[int, ...]
    table: Array
    log_prior: Array
    newest: float
    scale: float

    def restore(self, samples: Array) -> Array:
        """Converts samples relative to the newest score back to the trial's scores."""
        result: Array = self.newest + self.scale * samples
        return result


def lay_out(steps: Array, scores: Array, *, last_step: int, shapes: Shapes) -> Sheet | None:
    """Normalises an observed curve, and evaluates each shape at the curve's steps.

    The steps are the observed steps and the future steps up to ``last_step``. Shapes that are not
    finite at all steps are left out. Returns None if no shape is left or no step is future.
    """
    if steps[-1] >= last_step:
        return None
    future = future_steps(int(steps[-1]), last_step)
    times = np.concatenate([steps, np.array(future, dtype=np.float64)]) / max(steps[0], 1.0)
    times = np.maximum(times, 1.0)
    with np.errstate(all="ignore"):
        table = shapes.evaluate(times)
    usable = np.isfinite(table).all(axis=1)
    if not usable.any():
        return None
    newest = float(scores[-1])
    scale = max(float(np.ptp(scores)), 1e-9 * (1 + abs(newest)))
    return Sheet(
        scores=(scores - newest) / scale,
        times=times,
        future=future,
        table=table[usable],
        log_prior=shapes.log_prior[usable],
        newest=newest,
        scale=scale,
    )


def usable_points(
    observations: Sequence[Observation], most: int = MAX_POINTS
) -> tuple[Array, Array]:
    """Returns the steps and scores of the observations with finite scores.

    The observations are thinned evenly to at most ``most``, which include the newest.
    """
    seen = [item for item in observations if np.isfinite(item.score)]
    stride = -(-len(seen) // most) or 1
    seen = seen[::-1][::stride][::-1]
    steps = np.array([item.step for item in seen], dtype=np.float64)
    return steps, np.array([item.score for item in seen], dtype=np.float64)
