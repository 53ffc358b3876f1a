"""Allocators: policies that decide how many resource units (GPUs) each running trial gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from hpo_ops.allocators._allocation_changes import Changes, changes_of
from hpo_ops.allocators._fluid import DynamicFluid, StaticFluid, fluid_widths
from hpo_ops.allocators._ranked_shares import Even, TopTrial, Uniform
from hpo_ops.core import Allocator
from hpo_ops.core.policy_options import create_policy

ALLOCATORS: Mapping[str, type[Allocator]] = {
    "dynamic_fluid": DynamicFluid,
    "even": Even,
    "static_fluid": StaticFluid,
    "top_trial": TopTrial,
    "uniform": Uniform,
}
"""The allocators that have a short name; the fields of each class are the policy's options."""


def create_allocator(name: str, options: Mapping[str, object]) -> Allocator:
    """Instantiates an allocator from the name and options in a study file.

    >>> create_allocator("uniform", {"cool_down": 3})
    Uniform(speedups=(), min_gain=1.1, cool_down=3)

    Args:
        name: A short name (see ``ALLOCATORS``), or ``their.module:Class`` if the operator has
            allowed that class.
        options: The allocator's own options.

    Raises:
        ValueError: The name or an option is not allowed. The message states what is allowed.
    """
    made = create_policy(
        "allocator",
        ALLOCATORS,
        name,
        options,
        methods=("allocate",),
        group="hpo_ops.allocators",
    )
    return cast(Allocator, made)


__all__ = [
    "ALLOCATORS",
    "Changes",
    "DynamicFluid",
    "Even",
    "StaticFluid",
    "TopTrial",
    "Uniform",
    "changes_of",
    "create_allocator",
    "fluid_widths",
]
