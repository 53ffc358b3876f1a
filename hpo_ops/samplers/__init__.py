"""Samplers: who proposes. Optuna's by name or class, on the ledger's database."""

from hpo_ops.samplers.registry import SAMPLERS, check_sampler

__all__ = ["SAMPLERS", "check_sampler"]
