"""Experiments: the same study with several seeds, and which of several studies is better.

A study's outcome is its best value. Repeats that have the same number have the same seed in all
studies of a comparison, so that outcomes are compared in pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from statistics import fmean, stdev

from hpo_ops.core.seeds import derive_seed
from hpo_ops.core.study_view import Direction

LEVEL = 0.95
"""How sure an interval is."""
EXACT_PAIRS = 14
"""Most pairs for which all signs are tried."""
DRAWS = 20_000
"""Signs that are drawn where there are more."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over repeats.

    Attributes:
        repeats: How many there were.
        mean: Their mean.
        deviation: Their sample deviation (n - 1); None of a single one.
        low: Lower end of the interval in which the true mean is, by Student's t; None of one.
        high: Its upper end.
    """

    repeats: int
    mean: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None


def repeat_seed(seed: int, repeat: int) -> int:
    """The seed of a repeat; the first has the study's own."""
    return seed if repeat == 0 else derive_seed(seed, "repeat", repeat)


def estimate(values: Sequence[float]) -> Estimate:
    """Mean, sample deviation and confidence interval of one value or more.

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
    """The best after each of some values; None until there is one.

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
    """The mean of several curves of the best so far, by how many trials had ended.

    It begins where all of them have a value. One that ends earlier stays where it ended.
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
    """How likely differences as large as these are if both sides are equally good.

    The permutation test of pairs, two-sided: if it did not matter which is which, each difference
    might as well have the other sign. All signs are tried, or many are drawn where there are too
    many. With n pairs that all differ it is 2 / 2**n at the least.

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


def holm(chances: Sequence[float]) -> list[float]:
    """Chances of error, corrected for having tested several at once (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(chances)), key=lambda index: chances[index])
    corrected, highest = [0.0] * len(chances), 0.0
    for place, index in enumerate(order):
        highest = max(highest, min((len(chances) - place) * chances[index], 1.0))
        corrected[index] = highest
    return corrected


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One of several studies, in the order of how good they are.

    Attributes:
        name: The study.
        estimate: Its outcome.
        pairs: Repeats that both it and the first one have.
        behind: Mean of how much worse it is than the first one in these; None of the first.
        chance: How likely that much is if both are equally good, corrected; None of the first.
    """

    name: str
    estimate: Estimate
    pairs: int = 0
    behind: float | None = None
    chance: float | None = None


def rank(outcomes: Mapping[str, Mapping[int, float]], direction: Direction) -> list[Standing]:
    """Studies by their mean outcome, best first, each tested against the first in pairs.

    Args:
        outcomes: By study and repeat.
        direction: Which way is better.
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
    chances = holm([paired_test(differences[name]) for name in others])
    return [
        Standing(name=first, estimate=estimates[first], pairs=len(known[first])),
        *(
            Standing(
                name=name,
                estimate=estimates[name],
                pairs=len(differences[name]),
                behind=fmean(differences[name]) if differences[name] else None,
                chance=chance if differences[name] else None,
            )
            for name, chance in zip(others, chances, strict=True)
        ),
    ]
