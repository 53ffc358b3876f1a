"""Keys of the score cache, which serves the reports of an identical earlier trial."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from hpo_ops.core.search_space import Categorical, Float, Int, Parameter, Space
from hpo_ops.core.seeds import derive_seed
from hpo_ops.protocol import ParamValue


def canonical_params(space: Space, params: Mapping[str, ParamValue]) -> str:
    """Returns the canonical JSON text of parameters, equal for equal points of the space.

    The text does not depend on the order of the parameters. Values are converted to the types that
    the space declares.

    >>> space = Space({"lr": Float(low=0, high=1), "depth": Int(low=1, high=3)})
    >>> canonical_params(space, {"lr": 1, "depth": 2.0})
    '{"depth":2,"lr":1.0}'
    """
    typed = {name: _typed(space.get(name), value) for name, value in params.items()}
    return _text(typed)


def _typed(parameter: Parameter | None, value: ParamValue) -> ParamValue:
    match parameter:
        case Float() if isinstance(value, (int, float)):
            return float(value) + 0.0  # turns -0.0 into 0.0
        case Int() if isinstance(value, (int, float)):
            return int(value)
        case Categorical() if value in parameter.choices:
            return parameter.choices[parameter.choices.index(value)]
    return value


def seed_of_params(seed: int, params: str) -> int:
    """Returns the seed of the trials of a study that have the given canonical parameters."""
    return derive_seed(seed, "params", params)


def cache_key(*, made_of: Mapping[str, object], params: str, seed: int, fold: str = "") -> str:
    """Returns the key under which the score cache stores the reports of a trial.

    The key does not depend on the number of steps.

    Args:
        made_of: Code, image, command and data of the training.
        params: The trial's parameters as text from `canonical_params`.
        seed: The trial's seed.
        fold: Name of the fold; empty without cross-validation.
    """
    identity = {"made_of": made_of, "params": params, "seed": seed, "fold": fold}
    return hashlib.sha256(_text(identity).encode()).hexdigest()


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
