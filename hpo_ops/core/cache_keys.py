"""What makes two trials the same, so that the score of one is the score of the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from hpo_ops.core.search_space import Categorical, Float, Int, Parameter, Space
from hpo_ops.core.seeds import derive_seed
from hpo_ops.protocol import ParamValue


def canonical_params(space: Space, params: Mapping[str, ParamValue]) -> str:
    """Parameters as text that is the same for the same point of a space.

    Their order does not matter, and the space says of which type a value is.

    >>> space = Space({"lr": Float(low=0, high=1), "depth": Int(low=1, high=3)})
    >>> canonical_params(space, {"lr": 1, "depth": 2.0})
    '{"depth":2,"lr":1.0}'
    """
    typed = {name: _typed(space.get(name), value) for name, value in params.items()}
    return _text(typed)


def _typed(parameter: Parameter | None, value: ParamValue) -> ParamValue:
    match parameter:
        case Float() if isinstance(value, (int, float)):
            return float(value) + 0.0  # there is one zero
        case Int() if isinstance(value, (int, float)):
            return int(value)
        case Categorical() if value in parameter.choices:
            return parameter.choices[parameter.choices.index(value)]
    return value


def seed_of_params(seed: int, params: str) -> int:
    """The seed of every trial with these canonical parameters."""
    return derive_seed(seed, "params", params)


def cache_key(*, made_of: Mapping[str, object], params: str, seed: int, fold: str = "") -> str:
    """The name under which the reports of a trial are found again, for any number of steps.

    Args:
        made_of: What trains and what it trains on: code, image, command, data.
        params: Canonical parameters.
        seed: The trial's seed.
        fold: Names the part of the data, where a study has folds.
    """
    whole = {"made_of": made_of, "params": params, "seed": seed, "fold": fold}
    return hashlib.sha256(_text(whole).encode()).hexdigest()


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
