"""Made-up learning curves."""

from __future__ import annotations

import numpy as np

from hpo_ops.core import Observation


def curve(values: list[float]) -> list[Observation]:
    return [Observation(step, value, 60.0) for step, value in enumerate(values, start=1)]


def rising(seed: int = 0, count: int = 30) -> list[Observation]:
    random = np.random.default_rng(seed)
    steps = np.arange(1, count + 1)
    return curve(list(0.8 - 0.7 * np.exp(-0.1 * steps) + random.normal(0, 0.005, count)))
