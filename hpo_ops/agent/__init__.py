"""The sidecar: ships reports and checkpoints, carries decisions back."""

from hpo_ops.agent._agent import Agent

__all__ = ["Agent"]
