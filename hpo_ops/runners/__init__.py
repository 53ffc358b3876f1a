"""A trial as a local process, as a pod."""

from hpo_ops.runners.local import Companion, LocalRunner
from hpo_ops.runners.segment import run_segment
from hpo_ops.runners.warm import WarmStarter

__all__ = ["Companion", "LocalRunner", "WarmStarter", "run_segment"]
