"""The wandering ensemble: curve families plus a random walk whose scale is fitted to the curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpo_ops.core import Observation
from hpo_ops.core.policy_options import check_at_least, check_between
from hpo_ops.curves._projected import (
    FAMILIES,
    Array,
    Sheet,
    lay_out,
    make_shapes,
    usable_points,
)
from hpo_ops.curves.forecast import QuantileForecast

MAX_POINTS = 60
RATES = 32
NOISES = np.geomspace(2e-3, 0.5, 6)
TIMES = np.array([1 / 3, 1.0, 3.0])
"""Factors of each unknown scale: the grid contains the configured scale times each factor."""
FEWEST = 4
"""Smallest number of newest points from which the noise is estimated."""
USUAL_NOISE, MOST_NOISE = 0.1, 4.0
"""Noise, in units of the range of the scores, to which the option ``doubt`` refers, and the
largest multiple of that noise that is considered."""


@dataclass(frozen=True, kw_only=True)
class WanderingEnsemble:
    """Forecasts a curve by a mixture of eleven curve families plus a random walk.

    A curve is one of the eleven families (Domhan et al., IJCAI 2015), plus a deviation that no
    family can express, plus noise. Given its shape parameters, each family is linear in its scores
    at the first and at the last step. So the shape parameters and the scales of all random parts
    are put on a grid; both end scores are integrated out in closed form, every combination is
    weighted by its marginal likelihood, and the mixture is sampled. This takes milliseconds;
    sampling all parameters with Markov chains takes seconds.

    The deviation is a random walk in the logarithm of the steps, or the integral of one, which is
    smooth and continues the trend of the newest scores. Its scale is estimated from the curve, so
    that the intervals are narrow for a curve like the families and wide for others. Since the
    walk takes larger steps early, later points weigh more, as they do in the paper.

    Scales that are estimated from few points are uncertain themselves, so that the tails are those
    of Student's t, with one degree of freedom for every ``tails`` points. The range of a curve
    that has hardly risen above its noise does not predict how far it will rise: above the median
    the forecast is wider by ``doubt``, growing with the noise in units of the range and with the
    number of future steps.

    Priors, in units of the range of the observed scores: the score at the last step is normal
    with the newest score plus ``gain`` times ``spread`` as mean and ``spread`` as standard
    deviation; the score at the first step is normal with the first observed score as mean and
    standard deviation 1. ``spread``, ``wander`` and ``bend`` each take three values on the grid: a
    third of the option, the option, and three times the option.

    Attributes:
        seed: Seed of the samples.
        samples: Number of samples of the mixture.
        min_points: Smallest number of observations for a forecast.
        gain: Prior mean of the increase from the newest score to the score at the last step, in
            units of ``spread``.
        spread: Prior standard deviation of the score at the last step.
        wander: Standard deviation of the random walk when the logarithm of the step has grown by 1
            since the first step.
        bend: Standard deviation, at the same step, of the random walk whose integral is the smooth
            deviation.
        smoothness: Prior probability that the deviation is an integrated random walk.
        tails: Number of points for each degree of freedom of Student's t.
        doubt: Relative widening of the forecast above its median, for a curve whose noise is a
            tenth of its range and that has as many future as observed steps.
    """

    seed: int = 0
    samples: int = 2000
    min_points: int = 4
    gain: float = 0.3
    spread: float = 0.6
    wander: float = 0.05
    bend: float = 0.2
    smoothness: float = 0.15
    tails: float = 2.0
    doubt: float = 0.8

    def __post_init__(self) -> None:
        check_at_least("samples", self.samples, 100)
        check_at_least("min_points", self.min_points, 3)
        for name in ("spread", "wander", "bend", "tails"):
            check_at_least(name, getattr(self, name), 1e-3)
        check_at_least("doubt", self.doubt, 0.0)
        check_between("smoothness", self.smoothness, 0.01, 0.99)

    def predict(
        self, observations: Sequence[Observation], *, last_step: int
    ) -> QuantileForecast | None:
        steps, scores = usable_points(observations, MAX_POINTS)
        if len(steps) < self.min_points:
            return None
        shapes = make_shapes(RATES, FAMILIES)
        sheet = lay_out(steps, scores, last_step=last_step, shapes=shapes)
        if sheet is None:
            return None
        samples = self._sample(sheet, self._deviations(np.log(sheet.times)))
        ahead = (last_step - steps[-1]) / (steps[-1] - steps[0])
        noise = min(noise_share(steps, scores) / USUAL_NOISE, MOST_NOISE)
        doubt = self.doubt * noise**1.5 * float(ahead) ** 0.3
        stretched = self._stretch(samples, len(steps), doubt)
        return QuantileForecast.from_samples(sheet.future, sheet.restore(stretched))

    def _stretch(self, samples: Array, count: int, doubt: float) -> Array:
        """Scales the deviations of sampled scores from the median of each step.

        The factors are random, so that the tails are those of Student's t; deviations above the
        median are also multiplied by 1 plus ``doubt``.

        Args:
            samples: Scores, one row for each sampled curve and one column for each step.
            count: Number of observed points.
            doubt: Relative widening of the forecast above its median.
        """
        random = np.random.default_rng((self.seed, count, 1))
        freedom = count / self.tails
        stretch = np.sqrt(freedom / random.chisquare(freedom, (self.samples, 1)))
        middle = np.median(samples, axis=0)
        off = stretch * (samples - middle)
        result: Array = middle + np.where(off > 0, 1 + doubt, 1.0) * off
        return result

    def _deviations(self, clock: Array) -> Deviations:
        """Returns the deviations of all combinations of kind, scale and noise level.

        Args:
            clock: Logarithms of the observed and future times.
        """
        early, late = np.minimum.outer(clock, clock), np.maximum.outer(clock, clock)
        walk = np.multiply.outer((self.wander * TIMES) ** 2, early)
        smooth = np.multiply.outer((self.bend * TIMES) ** 2, early**2 * (late - early / 3) / 2)
        kinds = np.concatenate([walk, smooth])
        share = np.repeat([1 - self.smoothness, self.smoothness], len(TIMES))
        return Deviations(
            covariance=np.repeat(kinds, len(NOISES), axis=0),
            noise=np.tile(NOISES**2, len(kinds)),
            log_prior=np.repeat(np.log(share), len(NOISES)),
        )

    def _sample(self, sheet: Sheet, deviations: Deviations) -> Array:
        """Samples curves from the posterior.

        Returns the scores of each sampled curve (row) at each future step (column), on the scale
        of ``Sheet.scores``.
        """
        table, scores, count = sheet.table, sheet.scores, len(sheet.scores)
        seen = deviations.covariance[:, :count, :count]
        between = deviations.covariance[:, :count, count:]
        total = seen + deviations.noise[:, None, None] * np.eye(count)
        precision: Array = np.asarray(np.linalg.inv(total), dtype=np.float64)
        known = deviations.log_prior - 0.5 * np.linalg.slogdet(total)[1]
        posterior = self._project(
            table[:, :count], sheet.log_prior + known[:, None], precision, scores
        )
        random = np.random.default_rng((self.seed, count))
        positions = (np.arange(self.samples) + random.random()) / self.samples
        flat = np.searchsorted(np.cumsum(posterior.weights), positions)
        flat = random.permutation(np.minimum(flat, posterior.weights.size - 1))
        chosen = np.unravel_index(flat, posterior.weights.shape)
        z_last, z_first, z_rest = random.standard_normal((3, self.samples))
        last = posterior.last[chosen] + posterior.root_last[chosen] * z_last
        first = (
            posterior.first[chosen]
            + posterior.root_cross[chosen] * z_last
            + posterior.root_first[chosen] * z_first
        )
        _, kind, shape = chosen
        curves = last[:, None] + (first - last)[:, None] * table[shape]
        misfit = scores - curves[:, :count]
        carried = precision @ between
        rest = np.diagonal(deviations.covariance, axis1=1, axis2=2)[:, count:]
        rest = rest - (carried * between).sum(axis=1) + deviations.noise[:, None]
        result: Array = curves[:, count:] + np.sqrt(np.maximum(rest, 0.0))[kind] * z_rest[:, None]
        for one in np.unique(kind):
            result[kind == one] += misfit[kind == one] @ carried[one]
        return result

    def _project(
        self, to_go: Array, log_prior: Array, precision: Array, scores: Array
    ) -> Posterior:
        """Returns the posterior of the curve's scores at its first and its last step.

        The posterior has one entry for each combination of spread, deviation and shape.
        """
        projected = to_go @ precision
        ones, pull = precision.sum(axis=(1, 2))[:, None], precision @ scores
        cross = projected.sum(axis=-1)
        square = np.einsum("ksn,sn->ks", projected, to_go)
        on_shape, on_ones = projected @ scores, pull.sum(axis=-1)[:, None]
        spread = (self.spread * TIMES)[:, None, None]
        prior, gain = 1 / spread**2, self.gain * spread
        p_last = ones - 2 * cross + square + prior
        p_cross = cross - square
        p_first = square + 1.0
        b_last = on_ones - on_shape + prior * gain
        b_first = on_shape + scores[0]
        determinant = p_last * p_first - p_cross**2
        last = (p_first * b_last - p_cross * b_first) / determinant
        first = (p_last * b_first - p_cross * b_last) / determinant
        squares = (pull @ scores)[:, None] + prior * gain**2 + scores[0] ** 2
        misfit = squares - (last * b_last + first * b_first)
        log_weight = -0.5 * misfit - 0.5 * np.log(determinant) - np.log(spread) + log_prior
        chance = np.exp(log_weight - log_weight.max())
        root_last = np.sqrt(p_first / determinant)
        root_cross = -p_cross / determinant / root_last
        rest = np.maximum(p_last / determinant - root_cross**2, 0.0)
        return Posterior(
            weights=chance / chance.sum(),
            last=last,
            first=first,
            root_last=root_last,
            root_cross=root_cross,
            root_first=np.sqrt(rest),
        )


def noise_share(steps: Array, scores: Array) -> float:
    """Returns the noise of the newest half of the scores, in units of the range of all scores.

    The noise is the standard deviation of these scores around a straight line fitted to them.
    """
    count = max(FEWEST, len(scores) // 2)
    x, y = steps[-count:], scores[-count:]
    x, y = x - x.mean(), y - y.mean()
    off = y - x * (x @ y) / (x @ x)
    scale = max(float(np.ptp(scores)), 1e-12)
    return float(np.sqrt(off @ off / max(len(y) - 2, 1))) / scale


@dataclass(frozen=True, kw_only=True)
class Deviations:
    """Models of a curve's random deviation from its curve family.

    The arrays have one row for each combination of kind of deviation (random walk or integrated
    random walk), scale and noise level.

    Attributes:
        covariance: Covariance of the deviation between all observed and future times.
        noise: Variance of the noise of a single score.
        log_prior: Logarithm of the combination's prior probability, up to a constant.
    """

    covariance: Array
    noise: Array
    log_prior: Array


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """A mixture of normal distributions of a curve's scores at its first and last step.

    The arrays have one entry for each combination of spread, deviation and shape.
    """

    weights: Array
    last: Array
    first: Array
    root_last: Array
    root_cross: Array
    root_first: Array
