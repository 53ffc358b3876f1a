"""Generates synthetic traces that resemble the workloads of papers on scheduling trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp
from random import Random

from hpo_ops.core import Direction, derive_seed
from hpo_ops.simulator.traces import Traces, TrialTrace


def image_study(
    *,
    seed: int = 0,
    trials: int = 100,
    steps: int = 120,
    levels: tuple[float, float] = (2.2, 1.6),
) -> Traces:
    """Generates accuracies of image classifiers, like HyperDrive's CIFAR-10 workload.

    About a third of the trials stay at the accuracy of random guessing (0.1). The others rise
    quickly at first and slowly later, to very different levels; few reach 0.77. A step takes about
    a minute.

    Args:
        seed: Seed of the curves.
        trials: Number of trials.
        steps: Number of steps of each trial.
        levels: Parameters of the beta distribution of final accuracies between 0.3 and 0.8; the
            larger the first parameter, the more trials come close to the best.
    """
    random = Random(derive_seed(seed, "image"))  # noqa: S311 (no secret)
    made: list[TrialTrace] = []
    for _ in range(trials):
        pace = 60.0 * exp(random.gauss(0.0, 0.25))
        seconds = tuple(pace * exp(random.gauss(0.0, 0.03)) for _ in range(steps))
        if random.random() < 0.32:
            values = tuple(0.1 + random.gauss(0.0, 0.004) for _ in range(steps))
        else:
            top = 0.30 + 0.50 * random.betavariate(*levels)
            quick = random.uniform(0.5, 0.8)
            rates = (10 ** random.uniform(-1.0, 0.0), 10 ** random.uniform(-1.9, -1.1))
            values = tuple(
                top
                - (top - 0.1)
                * (quick * exp(-rates[0] * step) + (1 - quick) * exp(-rates[1] * step))
                + random.gauss(0.0, 0.006)
                for step in range(1, steps + 1)
            )
        made.append(TrialTrace(values, seconds, {"index": len(made)}))
    return Traces(f"image-{seed}", "accuracy", Direction.MAXIMIZE, tuple(made))


def game_study(*, seed: int = 0, trials: int = 100, steps: int = 100) -> Traces:
    """Generates rewards of agents that learn a game, like HyperDrive's LunarLander workload.

    More than half of the trials do not learn (rewards of -100 and below); some learn and then
    collapse for good. Rewards lie between -500 and 300; 200 counts as solved.
    """
    random = Random(derive_seed(seed, "game"))  # noqa: S311 (no secret)
    made: list[TrialTrace] = []
    for _ in range(trials):
        pace = 30.0 * exp(random.gauss(0.0, 0.3))
        seconds = tuple(pace * exp(random.gauss(0.0, 0.05)) for _ in range(steps))
        learns = random.random() < 0.45
        top = random.uniform(-50.0, 260.0) if learns else random.uniform(-250.0, -110.0)
        rate = random.uniform(0.02, 0.12)
        crash = random.randrange(10, steps) if random.random() < 0.25 else steps
        values = []
        for step in range(steps):
            level = top - (top + 300.0) * exp(-rate * (step + 1))
            level = level if step < crash else -150.0
            values.append(max(-500.0, min(300.0, level + random.gauss(0.0, 12.0))))
        made.append(TrialTrace(tuple(values), seconds, {"index": len(made)}))
    return Traces(f"game-{seed}", "reward", Direction.MAXIMIZE, tuple(made))


def slow_study(*, seed: int = 0, trials: int = 144, steps: int = 200) -> Traces:
    """Generates accuracies of networks that improve to the last step, as in HyperSched's paper.

    A step takes about 20 seconds, so 200 steps on one resource unit take over an hour. Most
    configurations learn; the speed of learning does not predict the final level.
    """
    random = Random(derive_seed(seed, "slow"))  # noqa: S311 (no secret)
    made: list[TrialTrace] = []
    for _ in range(trials):
        pace = 20.0 * exp(random.gauss(0.0, 0.05))
        top = 0.5 + 0.45 * random.betavariate(3.0, 1.5)
        rate = random.uniform(0.006, 0.03)
        quick = random.uniform(0.3, 0.6)
        values = tuple(
            0.1
            + (top - 0.1)
            * (quick * (1 - exp(-0.3 * step)) + (1 - quick) * (1 - exp(-rate * step)))
            + random.gauss(0.0, 0.006)
            for step in range(1, steps + 1)
        )
        made.append(TrialTrace(values, (pace,) * steps, {"index": len(made)}))
    return Traces(f"slow-{seed}", "accuracy", Direction.MAXIMIZE, tuple(made))


def uneven_study(*, seed: int = 0, trials: int = 27, steps: int = 27) -> Traces:
    """Generates trials whose steps take very different times, as in a search over network sizes.

    The study shows the benefit of the Fluid allocator: in a rung of synchronous halving, all
    trials wait for the slowest.
    """
    random = Random(derive_seed(seed, "uneven"))  # noqa: S311 (no secret)
    made: list[TrialTrace] = []
    for _ in range(trials):
        pace = 60.0 * exp(random.gauss(0.0, 0.8))
        top, rate = random.uniform(0.4, 0.95), random.uniform(0.05, 0.4)
        values = tuple(
            top * (1 - exp(-rate * step)) + random.gauss(0.0, 0.01) for step in range(1, steps + 1)
        )
        made.append(TrialTrace(values, (pace,) * steps, {"index": len(made)}))
    return Traces(f"uneven-{seed}", "accuracy", Direction.MAXIMIZE, tuple(made))


SYNTHETIC: Mapping[str, Callable[..., Traces]] = {
    "image": image_study,
    "game": game_study,
    "slow": slow_study,
    "uneven": uneven_study,
}
"""The functions that generate synthetic studies, by name."""


def make_synthetic(name: str, options: Mapping[str, object], *, seed: int = 0) -> Traces:
    """Generates a synthetic study from its name and its options: trials, steps and seed.

    Raises:
        ValueError: The name or an option is not allowed; the message says what is allowed.
    """
    if name not in SYNTHETIC:
        raise ValueError(f"{name!r} is no synthetic study: there are {', '.join(SYNTHETIC)}")
    least = {"trials": 1, "steps": 2, "seed": 0}
    numbers: dict[str, int] = {"seed": seed}
    for key, value in options.items():
        if key not in least:
            raise ValueError(f"{name}.{key} is not an option; allowed: {', '.join(least)}")
        if not isinstance(value, int) or isinstance(value, bool) or value < least[key]:
            raise ValueError(
                f"{name}.{key} is {value!r}, but must be an integer, {least[key]} or more"
            )
        numbers[key] = value
    return SYNTHETIC[name](**numbers)
