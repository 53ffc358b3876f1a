"""Study configs for tests."""

from __future__ import annotations

from typing import Any


def study_data(**changes: Any) -> dict[str, Any]:
    """A small whole study, with some keys changed; a value of None takes a key away."""
    data: dict[str, Any] = {
        "name": "small",
        "code": ".",
        "command": "python train.py",
        "metric": {"name": "accuracy", "direction": "maximize"},
        "space": {"lr": {"float": [1e-4, 1e-1], "log": True}, "width": {"int": [4, 64]}},
        "sampler": "random",
        "scheduler": {"name": "asha", "min_steps": 1, "max_steps": 9, "eta": 3},
        "trials": 6,
        "parallelism": 3,
        "seed": 7,
        **changes,
    }
    return {key: value for key, value in data.items() if value is not None}
