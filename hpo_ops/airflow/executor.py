"""Airflow's LocalExecutor, with one thing more: it takes back tasks of a killed worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.executors.local_executor import LocalExecutor

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance


class RevokingLocalExecutor(LocalExecutor):
    """Gives up a task that was queued for too long, so that the scheduler queues it again.

    A worker that is killed after it took a task and before it began leaves it queued. Airflow's
    own LocalExecutor cannot take such a task back: it would be queued, and hold a place, until
    the scheduler is started anew.
    """

    def revoke_task(self, *, ti: TaskInstance) -> None:
        """Forgets a task; a worker that has it all the same is turned away when it begins."""
        self.queued_tasks.pop(ti.key, None)
        self.running.discard(ti.key)
