"""The ensemble of Domhan et al.: parameters of eleven curve families, sampled by Markov chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from hpo_ops.core import Observation
from hpo_ops.core.policy_options import check_at_least
from hpo_ops.curves._curve_families import FAMILIES, Family
from hpo_ops.curves._predictor_port import MissingPackageError
from hpo_ops.curves.forecast import QuantileForecast, future_steps

Array = NDArray[np.float64]


class Moves(StrEnum):
    """The possible proposal moves of emcee's walkers (parallel Markov chains).

    ``STRETCH``: stretch moves. ``DIFFERENTIAL``: differential evolution with snooker moves.
    """

    STRETCH = "stretch"
    DIFFERENTIAL = "differential"


@dataclass(frozen=True, kw_only=True)
class McmcEnsemble:
    """Forecasts a curve by a weighted sum of eleven curve families, sampled with emcee.

    Needs the package emcee, which the extra ``curves`` installs.

    Domhan et al., "Speeding Up Automatic Hyperparameter Optimization of Deep Neural Networks by
    Extrapolation of Learning Curves", IJCAI 2015, with HyperDrive's shorter chains by default:
    100 walkers with 700 steps, of which the first 500 are discarded and then every tenth is used.
    The likelihood is computed for all walkers at once.

    Departures: if any score is outside of 0 to 1, all scores are scaled into that range first.

    Attributes:
        seed: Seed of the chains.
        walkers: Number of walkers, at least 96 (twice the 48 parameters of the weighted sum).
        steps: Number of steps of each walker.
        burn_in: Number of steps at the start of each walker that are discarded.
        thin: Of the remaining steps, every ``thin``-th step is used.
        moves: Stretch moves as published, or differential evolution with snooker moves.
        min_points: Smallest number of observations for a forecast.
    """

    seed: int = 0
    walkers: int = 100
    steps: int = 700
    burn_in: int = 500
    thin: int = 10
    moves: Moves = Moves.STRETCH
    min_points: int = 4

    def __post_init__(self) -> None:
        check_at_least("walkers", self.walkers, 96)
        check_at_least("burn_in", self.burn_in, 0)
        check_at_least("steps", self.steps, self.burn_in + 1)
        check_at_least("thin", self.thin, 1)
        check_at_least("min_points", self.min_points, 3)

    def predict(
        self, observations: Sequence[Observation], *, last_step: int
    ) -> QuantileForecast | None:
        seen = [item for item in observations if np.isfinite(item.score)]
        if len(seen) < self.min_points or seen[-1].step >= last_step:
            return None
        steps = np.array([max(item.step, 1) for item in seen], dtype=np.float64)
        scores = np.array([item.score for item in seen])
        low, scale = _unit_map(scores)
        future = future_steps(seen[-1].step, last_step)
        with np.errstate(all="ignore"):
            model = Model.fit(steps, (scores - low) / scale, float(last_step))
            if model is None:
                return None
            chain = self._sample(model)
            means = model.curve(chain, np.array(future, dtype=np.float64))
        usable = np.isfinite(means).all(axis=1)
        random = np.random.default_rng(self.seed)
        noise = np.exp(chain[usable, model.noise, None])
        samples = means[usable] + noise * random.standard_normal(means[usable].shape)
        return QuantileForecast.from_samples(future, low + scale * samples)

    def _sample(self, model: Model) -> Array:
        try:
            import emcee  # of the extra curves: only this predictor needs it
        except ModuleNotFoundError as error:
            raise MissingPackageError(
                "curves.name is 'mcmc', which needs the package emcee, but it is not installed: "
                "pip install 'hpo-ops[curves]'"
            ) from error

        random = np.random.default_rng(self.seed)
        start = model.start + 1e-6 * random.standard_normal((self.walkers, len(model.start)))
        moves = None
        if self.moves is Moves.DIFFERENTIAL:
            moves = [(emcee.moves.DEMove(), 0.8), (emcee.moves.DESnookerMove(), 0.2)]
        sampler = emcee.EnsembleSampler(
            self.walkers, len(model.start), model.log_probability, vectorize=True, moves=moves
        )
        sampler.random_state = np.random.RandomState(self.seed).get_state()
        sampler.run_mcmc(start, self.steps, skip_initial_state_check=True)
        chain: Array = sampler.get_chain(discard=self.burn_in, thin=self.thin, flat=True)
        return chain


def _unit_map(scores: Array) -> tuple[float, float]:
    """Returns the offset and scale that map scores into the range from 0 to 1.

    The offset is 0 and the scale 1 if all scores are in that range already.
    """
    low, high = float(scores.min()), float(scores.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    span = max(high - low, 1e-9 * (1 + abs(high)))
    return low - 0.2 * span, 2.0 * span


class Model:
    """The weighted sum of the curve families that could be fitted, and its log-posterior."""

    def __init__(
        self, families: Sequence[Family], start: Array, steps: Array, scores: Array, last: float
    ) -> None:
        self.families = families
        self.start = start
        self.noise = len(start) - len(families) - 1
        self._steps, self._scores, self._last = steps, scores, last
        self._recency = 10 ** (np.arange(len(steps)) / len(steps))

    @classmethod
    def fit(cls, steps: Array, scores: Array, last: float) -> Model | None:
        """Fits each curve family to the scores by least squares, and creates the model.

        The model leaves out each family whose fit failed or is excluded by the prior. Returns None
        if no family is left.
        """
        families, starts, misfits = [], [], []
        for family in FAMILIES:
            found = _least_squares(family, steps, scores)
            if found is None or not _is_allowed(family, found, last):
                continue
            families.append(family)
            starts.append(found)
            misfits.append(np.std(scores - family(steps, *found)))
        if not families:
            return None
        noise = [np.log(max(float(np.mean(misfits)), 1e-4))]
        weights = np.full(len(families), 10.0)
        return cls(families, np.concatenate([*starts, noise, weights]), steps, scores, last)

    def curve(self, chain: Array, steps: Array) -> Array:
        """Returns the weighted sum of the families at each step (column).

        The result has one row for each row of ``chain``, which is one set of all parameters.
        """
        total = np.zeros((len(chain), len(steps)))
        weights = self._weights(chain)
        for k, (family, columns) in enumerate(self._columns()):
            values = family(steps, *(chain[:, i, None] for i in columns))
            total += weights[:, k, None] * values
        return total

    def log_probability(self, chain: Array) -> Array:
        """Returns the log-posterior of each row of ``chain``, given the observed scores.

        The log-posterior of a row that the prior excludes is minus infinity.
        """
        ends = np.array([1.0 + 1.0, self._last])
        allowed = (chain[:, self.noise + 1 :] >= 0).all(axis=1)
        for family, columns in self._columns():
            early, late = family(ends, *(chain[:, i, None] for i in columns)).T
            allowed &= (early <= late) & (late >= 0) & (late <= 100)
        deviation = np.exp(chain[:, self.noise, None])
        misfit = (self._scores - self.curve(chain, self._steps)) / deviation
        terms = self._recency * (-0.5 * misfit**2 - np.log(deviation))
        result: Array = terms.sum(axis=1)
        result[~allowed | ~np.isfinite(result)] = -np.inf
        return result

    def _columns(self) -> list[tuple[Family, range]]:
        columns, first = [], 0
        for family in self.families:
            columns.append((family, range(first, first + len(family.defaults))))
            first += len(family.defaults)
        return columns

    def _weights(self, chain: Array) -> Array:
        weights = chain[:, self.noise + 1 :]
        result: Array = weights / weights.sum(axis=1, keepdims=True)
        return result


def _least_squares(family: Family, steps: Array, scores: Array) -> Array | None:
    """Returns the parameters of a curve family, fitted by least squares to the scores.

    Later points weigh more. Uses Levenberg-Marquardt, or L-BFGS-B if Levenberg-Marquardt fails or
    there are fewer points than parameters. Returns None if the parameters found are not finite.
    """
    from scipy import optimize  # takes a second to import

    recency = np.sqrt(10 ** (np.arange(len(steps)) / len(steps)))
    start = np.array(list(family.defaults.values()))

    def misfit(parameters: Array) -> Array:
        values: Array = np.nan_to_num(
            recency * (scores - family(steps, *parameters)), nan=1e3, posinf=1e3, neginf=-1e3
        )
        return values

    if len(steps) >= len(start):
        found = optimize.least_squares(misfit, start, method="lm", max_nfev=200)
        if found.success and np.isfinite(found.x).all():
            return np.asarray(found.x)
    found = optimize.minimize(lambda p: float((misfit(p) ** 2).sum()), start, method="L-BFGS-B")
    return np.asarray(found.x) if np.isfinite(found.x).all() else None


def _is_allowed(family: Family, parameters: Array, last: float) -> bool:
    early, late = family(np.array([2.0, last]), *parameters)
    return bool(early <= late and 0 <= late <= 100)
