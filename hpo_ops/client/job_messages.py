"""The shapes of jobs."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpo_ops.client.study_progress import Best
from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class JobStatus(Message):
    """How a job stands.

    Attributes:
        job: Its name, and that of its study.
        run_id: The DAG run that executes it.
        state: ``queued`` until its study is there, then the study's; ``failed`` where its DAG
            run has failed.
        completion: Share of its iterations that have ended.
        iterations: Iterations in all.
        counts: Iterations by state.
        notes: What the platform does otherwise than the job says.
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
