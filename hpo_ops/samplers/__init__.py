"""Samplers propose configurations: Optuna's, REINFORCE, or a user's search algorithm.

Optuna keeps its studies and trials in its own tables in the ledger's database.
"""

from hpo_ops.samplers._sampler_registry import (
    MULTI_OBJECTIVE,
    SAMPLERS,
    check_sampler,
    is_algorithm,
)

__all__ = ["MULTI_OBJECTIVE", "SAMPLERS", "check_sampler", "is_algorithm"]
