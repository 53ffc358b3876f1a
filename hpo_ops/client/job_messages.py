"""Messages about jobs; a job is a study that is submitted over HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpo_ops.client._study_progress import Best
from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class JobStatus(Message):
    """The status of a job. An iteration of a job is a trial of its study.

    Attributes:
        job: Name of the job and of its study.
        dag_id: Id of the DAG that executes the job.
        run_id: Id of the DAG run that executes the job.
        state: ``queued`` until the study has started, then the state of the study; ``failed`` if
            the DAG run has failed.
        reason: Why the job is in this state, as a sentence for people.
        completion: Fraction of the iterations that are finished.
        iterations: Total number of iterations.
        counts: Number of iterations by state.
        best: The best iteration so far; None if there is none.
        notes: Sentences about settings of the job that the platform ignores or changes.
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
