"""Provides samplers, which propose hyperparameters for the trials of a study.

A sampler is one of Optuna's, the REINFORCE sampler of this package, or a user's search algorithm.
Optuna stores studies and trials in its own tables, which are in the same database as the ledger
(the platform's record of all studies).
"""

from hpo_ops.samplers._sampler_registry import (
    MULTI_OBJECTIVE,
    SAMPLERS,
    check_sampler,
    is_algorithm,
)

__all__ = ["MULTI_OBJECTIVE", "SAMPLERS", "check_sampler", "is_algorithm"]
