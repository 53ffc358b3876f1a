"""The sidecar: ships reports and checkpoints, carries decisions back."""

from hpo_ops.agent.agent import Agent
from hpo_ops.agent.segment import run_segment

__all__ = ["Agent", "run_segment"]
