"""Samplers: who proposes. Optuna's by name or class, on the ledger's database."""

from hpo_ops.samplers.sampler_registry import (
    MULTI_OBJECTIVE,
    SAMPLERS,
    check_sampler,
    is_algorithm,
)

__all__ = ["MULTI_OBJECTIVE", "SAMPLERS", "check_sampler", "is_algorithm"]
