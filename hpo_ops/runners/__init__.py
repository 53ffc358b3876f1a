"""A trial as a local process, as a pod."""

from hpo_ops.runners.local.local_segment import run_segment
from hpo_ops.runners.local.process_runner import LocalRunner
from hpo_ops.runners.local.warm_starter import WarmStarter
from hpo_ops.runners.training_loop import Companion, SegmentRunner

__all__ = ["Companion", "LocalRunner", "SegmentRunner", "WarmStarter", "run_segment"]
