"""Runs the stack: PostgreSQL, an S3 server and Airflow on one machine.

The stack is used by the demo, tests and benchmarks. Each of its servers is a service, or `Part`.
"""

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
