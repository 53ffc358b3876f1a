"""Statistics of experiments: repeats of a study with several seeds, and comparisons of studies.

A study's outcome is its best value. All studies of a comparison use the same seed for the repeat
with the same number, so that the outcomes of two studies are compared in pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from statistics import fmean, stdev

from hpo_ops.core._study_view import Direction
from hpo_ops.core.seeds import derive_seed

LEVEL = 0.95
"""Confidence level of the confidence intervals."""
EXACT_PAIRS = 14
"""Largest number of pairs for which the permutation test tries all sign vectors."""
DRAWS = 20_000
"""Number of random sign vectors that the test tries with more than `EXACT_PAIRS` pairs."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The mean outcome of the repeats of a study, with its confidence interval.

    Attributes:
        repeats: Number of repeats.
        mean: Mean of the outcomes.
        deviation: Sample standard deviation (n - 1) of the outcomes; None for a single repeat.
        low: Lower end of the confidence interval of the mean, by Student's t; None for a single
            repeat.
        high: Upper end of the confidence interval; None for a single repeat.
    """

    repeats: int
    mean: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None


def repeat_seed(seed: int, repeat: int) -> int:
    """Returns the seed of a repeat; the first repeat (number 0) has the study's own seed."""
    return seed if repeat == 0 else derive_seed(seed, "repeat", repeat)


def estimate(values: Sequence[float]) -> Estimate:
    """Computes the mean, standard deviation and confidence interval of one or more values.

    >>> made = estimate([0.81, 0.79, 0.83, 0.80])
    >>> round(made.mean, 4), round(made.deviation, 5)
    (0.8075, 0.01708)
    """
    count, mean = len(values), fmean(values)
    if count < 2:
        return Estimate(repeats=count, mean=mean)
    from scipy.stats import t  # takes a second to import

    deviation = stdev(values)
    half = float(t.ppf((1 + LEVEL) / 2, count - 1)) * deviation / math.sqrt(count)
    return Estimate(
        repeats=count, mean=mean, deviation=deviation, low=mean - half, high=mean + half
    )


def best_so_far(values: Sequence[float | None], direction: Direction) -> tuple[float | None, ...]:
    """Returns the best value up to each position; None before the first value.

    >>> best_so_far([None, 0.5, 0.4, 0.7], Direction.MAXIMIZE)
    (None, 0.5, 0.5, 0.7)
    """
    best: float | None = None
    found = []
    for value in values:
        if value is not None and (
            best is None or direction.to_score(value) > direction.to_score(best)
        ):
            best = value
        found.append(best)
    return tuple(found)


def band(curves: Sequence[Sequence[float | None]]) -> dict[int, Estimate]:
    """Returns the mean of several best-so-far curves, with its confidence interval.

    The result is keyed by the number of finished trials.

    The mean starts at the first number of trials at which all curves have a value. A curve that
    is shorter than others is extended with its last value, and a curve without values is ignored.
    """
    curves = [curve for curve in curves if any(value is not None for value in curve)]
    found: dict[int, Estimate] = {}
    for index in range(max(map(len, curves), default=0)):
        values = [curve[min(index, len(curve) - 1)] for curve in curves]
        known = [value for value in values if value is not None]
        if len(known) == len(curves):
            found[index + 1] = estimate(known)
    return found


def paired_test(differences: Sequence[float], *, seed: int = 0) -> float:
    """Returns the p-value of the two-sided permutation test of paired differences.

    The null hypothesis is that each difference is as likely to have the opposite sign. The test
    tries all sign vectors, or `DRAWS` random vectors for more than `EXACT_PAIRS` pairs. With n
    pairs that all differ, the p-value of the exact test is at least 2 / 2**n.

    >>> paired_test([0.1, 0.2, 0.1, 0.3, 0.2, 0.1])
    0.03125
    """
    moved = [abs(difference) for difference in differences if difference]
    if not moved:
        return 1.0
    # Sums of the same numbers in another order may differ in their last digits.
    seen = abs(math.fsum(differences)) * (1 - 1e-9)
    if len(moved) <= EXACT_PAIRS:
        signs = product((1, -1), repeat=len(moved))
        hits = sum(_sum(row, moved) >= seen for row in signs)
        return hits / math.pow(2, len(moved))
    random = Random(derive_seed(seed, "paired test"))  # noqa: S311  not for secrets
    hits = sum(_sum(random.choices((1, -1), k=len(moved)), moved) >= seen for _ in range(DRAWS))
    return (hits + 1) / (DRAWS + 1)


def _sum(signs: Sequence[int], sizes: Sequence[float]) -> float:
    return abs(math.fsum(sign * size for sign, size in zip(signs, sizes, strict=True)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values corrected for multiple tests by Holm's method (1979).

    The corrected values are in the order of the given values.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min((len(p_values) - rank) * p_values[index], 1.0))
        corrected[index] = highest
    return corrected


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The result of one study in a comparison, relative to the best study.

    Attributes:
        name: Name of the study.
        estimate: Mean outcome of the study.
        pairs: Number of repeats that the study and the best study have in common.
        behind: Mean difference by which the study is worse than the best in the common repeats;
            None for the best study, or without common repeats.
        chance: p-value of ``behind``, corrected for multiple tests; None if ``behind`` is None.
    """

    name: str
    estimate: Estimate
    pairs: int = 0
    behind: float | None = None
    chance: float | None = None


def rank(outcomes: Mapping[str, Mapping[int, float]], direction: Direction) -> list[Standing]:
    """Ranks studies by mean outcome, the best first, and tests each against the best study.

    Studies without outcomes are omitted.

    Args:
        outcomes: Outcomes by name of the study and number of the repeat.
        direction: The direction of the metric.
    """
    known = {name: values for name, values in outcomes.items() if values}
    estimates = {name: estimate(list(values.values())) for name, values in known.items()}
    order = sorted(known, key=lambda name: -direction.to_score(estimates[name].mean))
    if not order:
        return []
    first, *others = order
    differences = {
        name: [
            direction.to_score(known[first][repeat]) - direction.to_score(known[name][repeat])
            for repeat in sorted(known[first].keys() & known[name].keys())
        ]
        for name in others
    }
    p_values = holm([paired_test(differences[name]) for name in others])
    return [
        Standing(name=first, estimate=estimates[first], pairs=len(known[first])),
        *(
            Standing(
                name=name,
                estimate=estimates[name],
                pairs=len(differences[name]),
                behind=fmean(differences[name]) if differences[name] else None,
                chance=p_value if differences[name] else None,
            )
            for name, p_value in zip(others, p_values, strict=True)
        ),
    ]
