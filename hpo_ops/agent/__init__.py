"""The agent: sends a training's reports and checkpoints, and passes decisions to the training."""

from hpo_ops.agent._agent import Agent

__all__ = ["Agent"]
