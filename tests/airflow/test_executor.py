from __future__ import annotations

from types import SimpleNamespace

from airflow.executors.executor_loader import ExecutorLoader
from airflow.executors.executor_utils import ExecutorName
from airflow.models.taskinstancekey import TaskInstanceKey

from hpo_ops.airflow.executor import RevokingLocalExecutor
from hpo_ops.stack.airflow_environment import EXECUTOR


def test_a_task_whose_worker_was_killed_before_it_began_gives_its_place_back() -> None:
    executor = RevokingLocalExecutor(parallelism=1)
    lost = SimpleNamespace(key=TaskInstanceKey("study", "trial", "run", 1, 0), id="an id")
    executor.running.add(lost.key)
    assert executor.slots_available == 0
    for _ in range(2):
        executor.revoke_task(ti=lost)  # type: ignore[arg-type]  # what it asks of one
    assert executor.slots_available == 1
    assert not executor.has_task(lost)  # type: ignore[arg-type]  # the same


def test_the_stack_has_this_executor() -> None:
    found, _ = ExecutorLoader.import_executor_cls(ExecutorName(module_path=EXECUTOR))
    assert found is RevokingLocalExecutor
