"""A trial as a local process, as a pod."""

from hpo_ops.runners.local.local_segment import run_segment
from hpo_ops.runners.local.process_runner import Companion, LocalRunner
from hpo_ops.runners.local.warm_starter import WarmStarter

__all__ = ["Companion", "LocalRunner", "WarmStarter", "run_segment"]
