"""Jobs: studies that are submitted over HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpo_ops.client._study_progress import Best
from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class JobStatus(Message):
    """The status of a job.

    Attributes:
        job: Name of the job and of its study.
        run_id: The DAG run that executes it.
        state: ``queued`` until its study has started, then the state of the study; ``failed`` if
            its DAG run has failed.
        completion: Fraction of its iterations that are finished.
        iterations: Total number of iterations.
        counts: Number of iterations by state.
        notes: Differences between what the job asks for and what the platform does.
    """

    job: str
    dag_id: str
    run_id: str
    state: str
    reason: str = ""
    completion: float = 0.0
    iterations: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    best: Best | None = None
    notes: list[str] = field(default_factory=list)
