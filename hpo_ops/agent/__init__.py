"""The agent of a training: sends reports to the gateway and uploads checkpoints to the store.

It passes the gateway's decisions to the training.
"""

from hpo_ops.agent._agent import Agent

__all__ = ["Agent"]
