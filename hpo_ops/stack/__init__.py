"""The stack: PostgreSQL, S3 and Airflow on one machine, for the demo, tests and benchmarks."""

from hpo_ops.stack._stack_parts import (
    Part,
    PartFailedError,
    PartStatus,
    Phase,
    Progress,
    StackError,
    Update,
)
from hpo_ops.stack.stack import Stack, stopping_at_the_end, supervised

__all__ = [
    "Part",
    "PartFailedError",
    "PartStatus",
    "Phase",
    "Progress",
    "Stack",
    "StackError",
    "Update",
    "stopping_at_the_end",
    "supervised",
]
