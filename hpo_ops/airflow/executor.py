"""An Airflow executor for one machine that survives the loss of any of its worker processes.

In Airflow's LocalExecutor all workers share one queue and its lock. An idle worker holds the lock
while it waits for the next task, and if that worker is killed, no other worker receives a task
again. In this executor each worker has a separate pipe and shares nothing with other workers.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from airflow.executors.base_executor import BaseExecutor, get_execution_api_server_url

from hpo_ops.airflow._executor_worker import Worker, close_worker, fork_worker, signal_worker

if TYPE_CHECKING:
    from airflow.executors.workloads import ExecutorWorkload
    from airflow.executors.workloads.types import WorkloadKey, WorkloadState
    from airflow.models.taskinstance import TaskInstance


@dataclass(frozen=True)
class _Event:
    """A change of a workload's state that was not yet reported to Airflow's scheduler.

    Attributes:
        key: Key of the workload (a task instance, a callback or a connection test).
        state: The new state.
        info: The error of a failed workload; None if there is no error.
    """

    key: WorkloadKey
    state: WorkloadState
    info: str | None = None


class WorkerPipeExecutor(BaseExecutor):
    """Runs workloads (Airflow's task instances) in `parallelism` worker processes.

    A worker that dies is replaced. If it had not begun its workload, the workload is sent to
    another worker. If it had begun the workload, the workload is reported as failed. The kernel
    kills the task's process together with the worker, so that a retry never runs beside it.

    A background thread receives results and sends each worker that becomes idle its next workload
    at once, since the scheduler's heartbeats may be seconds apart. For this purpose, more
    workloads than workers are accepted: the number in advance is the number of workloads that
    ended within the last `RECENT_SECONDS`, at most one for each worker. While all workers run long
    tasks, no workloads are accepted in advance: waiting tasks stay in the state "scheduled", since
    Airflow fails tasks in the state "queued" after `[scheduler] task_queued_timeout`.

    All public methods must be called from the scheduler's main thread. The background thread and
    the methods share `_workers`, `_waiting`, `_events` and `_ended_at`, protected by `_lock`.
    Workers are forked while the lock is held, so that a child process cannot inherit data that the
    background thread is changing.
    """

    is_local: bool = True
    serve_logs: bool = True
    supports_callbacks: bool = True
    supports_connection_test: bool = True
    supports_multi_team: bool = True

    RECENT_SECONDS = 5.0
    BEGIN_SECONDS = 30.0
    """Time after which a worker that has not begun its workload is killed and replaced."""
    END_SECONDS = 30.0
    """Time that `end` waits for running tasks to finish."""
    TERM_SECONDS = 5.0
    """Time between SIGTERM and SIGKILL for a worker that does not exit."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._waiting: deque[ExecutorWorkload] = deque()
        self._events: deque[_Event] = deque()
        self._ended_at: deque[float] = deque(maxlen=self.parallelism)
        self._is_ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._wake_reader: Connection | None = None
        self._wake_writer: Connection | None = None

    # Called by Airflow's scheduler

    @property
    def slots_available(self) -> int:
        """Number of workloads that can still be accepted, including workloads in advance."""
        return int(super().slots_available) + self._in_advance()

    @property
    def slots_occupied(self) -> int:
        """Number of occupied slots out of `parallelism`; workloads in advance occupy no slot."""
        return max(0, int(super().slots_occupied) - self._in_advance())

    def start(self) -> None:
        """Starts the workers and the background thread that sends them workloads."""
        self._is_ending.clear()
        self._wake_reader, self._wake_writer = multiprocessing.Pipe(duplex=False)
        self._fill_up()
        self._start_thread()

    def heartbeat(self) -> None:
        """Accepts queued workloads, and reports ended workloads to the scheduler."""
        super().heartbeat()
        # The base class counts neither slots that have just become free nor slots in advance.
        self.trigger_tasks(self.parallelism + self._in_advance() - len(self.running))

    def _process_workloads(self, workload_items: Sequence[ExecutorWorkload]) -> None:
        with self._lock:
            for workload in workload_items:
                for queue in self._queues():
                    queue.pop(workload.key, None)
                self.running.add(workload.key)
                self._waiting.append(workload)
            self._give_out()

    def sync(self) -> None:
        """Replaces dead workers and reports state changes of workloads to the scheduler."""
        self._replace_dead()
        if self._thread is not None and not self._thread.is_alive():
            self._start_thread()
        with self._lock:
            events = list(self._events)
            self._events.clear()
            held = {workload.key for workload in self._held()}
        for event in events:
            super().change_state(event.key, event.state, event.info, remove_running=False)
        self.running.clear()
        self.running.update(held)

    def change_state(
        self, key: WorkloadKey, state: WorkloadState, info: Any = None, remove_running: bool = True
    ) -> None:
        """Records the state of a workload; if the state is "failed", also kills its worker.

        The scheduler calls this method with the state "failed" for a task that has sent no
        heartbeat for too long. The task's worker may still be running then.
        """
        if str(state) == "failed":
            self._drop(key)
        super().change_state(key, state, info, remove_running)

    def revoke_task(self, *, ti: TaskInstance) -> None:
        """Drops a task that the scheduler will requeue; if a worker runs it, kills the worker."""
        self.queued_tasks.pop(ti.key, None)
        self._drop(ti.key)
        self.running.discard(ti.key)

    def end(self) -> None:
        """Waits at most `END_SECONDS` for running tasks to finish, then ends all workers."""
        self._end(self.END_SECONDS)

    def terminate(self) -> None:
        """Ends all workers without waiting for their tasks."""
        self._end(0.0)

    # Bookkeeping

    def _queues(self) -> tuple[dict[Any, Any], ...]:
        return self.queued_tasks, self.queued_callbacks, self.queued_connection_tests

    def _held(self) -> Iterable[ExecutorWorkload]:
        yield from self._waiting
        yield from (worker.workload for worker in self._workers if worker.workload is not None)

    def _in_advance(self) -> int:
        """Returns how many workloads may be accepted now in excess of the number of workers."""
        recent = time.monotonic() - self.RECENT_SECONDS
        with self._lock:
            return sum(ended_at > recent for ended_at in self._ended_at)

    def _drop(self, key: WorkloadKey) -> None:
        """Drops a workload without reporting its state; if a worker runs it, kills the worker."""
        with self._lock:
            for workload in [each for each in self._waiting if each.key == key]:
                self._waiting.remove(workload)
            for worker in self._workers:
                if worker.workload is not None and worker.workload.key == key:
                    worker.workload = None
                    close_worker(worker)
                    signal_worker(worker, signal.SIGKILL)

    # Workers

    def _replace_dead(self) -> None:
        with self._lock:
            too_old = time.monotonic() - self.BEGIN_SECONDS
            for worker in self._workers:
                if worker.workload and not worker.has_begun and worker.given_at < too_old:
                    self._receive_all(worker)  # its confirmation may be unread in the pipe
                    if worker.workload and not worker.has_begun:
                        signal_worker(worker, signal.SIGKILL)
            dead = [worker for worker in self._workers if not worker.process.is_alive()]
            for worker in dead:
                self._bury(worker)
        if dead:
            self.log.warning("%d of %d workers ended; replacing them", len(dead), self.parallelism)
            self._fill_up()
            with self._lock:
                self._give_out()

    def _bury(self, worker: Worker) -> None:
        """Removes a dead worker from the executor.

        A workload that the worker had begun is reported as failed; a workload that it had not
        begun is queued again.
        """
        self._receive_all(worker)
        self._workers.remove(worker)
        close_worker(worker)
        workload, code = worker.workload, worker.process.exitcode
        if code is not None:
            worker.process.close()
        if workload is None:
            return
        if worker.has_begun:
            info = f"its worker process ended with exit code {code}"
            self._finish(_Event(workload.key, workload.failure_state, info))
        else:
            self._waiting.appendleft(workload)

    def _fill_up(self) -> None:
        with self._lock:
            # The children's garbage collector does not touch frozen objects. Otherwise it would
            # copy the memory that the children share with this process.
            gc.freeze()
            try:
                while len(self._workers) < self.parallelism:
                    self._workers.append(self._fork())
            finally:
                gc.unfreeze()
        self._wake()

    def _fork(self) -> Worker:
        inherited = [worker.pipe for worker in self._workers if worker.pipe is not None]
        return fork_worker(
            foreign=[*inherited, self._wake_reader, self._wake_writer],
            server=get_execution_api_server_url(self.conf),
        )

    def _give_out(self) -> None:
        """Sends one waiting workload to each idle worker, until no workload is waiting."""
        for worker in self._workers:
            if not self._waiting:
                return
            if worker.pipe is None or worker.workload is not None:
                continue
            workload = self._waiting.popleft()
            try:
                worker.pipe.send(workload)
            except OSError:  # the worker has just died; `sync` replaces it
                close_worker(worker)
                self._waiting.appendleft(workload)
            else:
                worker.workload, worker.has_begun = workload, False
                worker.given_at = time.monotonic()

    def _finish(self, event: _Event) -> None:
        self._events.append(event)
        self._ended_at.append(time.monotonic())

    # The thread

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="executor", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        """Receives results from workers and sends waiting workloads to idle workers in a loop.

        This is the main function of the background thread.
        """
        while not self._is_ending.is_set():
            with self._lock:
                pipes = [worker.pipe for worker in self._workers if worker.pipe is not None]
            try:
                ready = wait([*pipes, *filter(None, [self._wake_reader])], timeout=1.0)
            except (OSError, ValueError):  # a pipe was closed meanwhile
                continue
            with self._lock:
                if self._wake_reader is not None and self._wake_reader in ready:
                    self._wake_reader.recv_bytes()
                self._receive_from(ready)
                self._give_out()

    def _wake(self) -> None:
        """Wakes the background thread, so that it notices new workers or the executor's end."""
        if self._wake_writer is not None:
            self._wake_writer.send_bytes(b"!")

    def _receive_from(self, ready: Sequence[object]) -> None:
        for worker in self._workers:
            if worker.pipe is not None and worker.pipe in ready and worker.pipe.poll():
                self._receive(worker)

    def _receive_all(self, worker: Worker) -> None:
        while worker.pipe is not None and worker.pipe.poll():
            self._receive(worker)

    def _receive(self, worker: Worker) -> None:
        """Receives one message from a worker and records it.

        The message None confirms that the worker has begun its workload; any other message is the
        workload's result.
        """
        if worker.pipe is None:
            return
        try:
            message: tuple[bool, str | None] | None = worker.pipe.recv()
        except (EOFError, OSError):
            close_worker(worker)
            return
        workload = worker.workload
        if workload is None:
            return
        if message is None:
            worker.has_begun = True
            if workload.running_state is not None:
                self._events.append(_Event(workload.key, workload.running_state))
            return
        is_done, error = message
        state = workload.success_state if is_done else workload.failure_state
        worker.workload = None
        self._finish(_Event(workload.key, state, error))

    # The end

    def _end(self, patience_seconds: float) -> None:
        self._is_ending.set()
        if self._thread is not None:
            self._wake()
            self._thread.join()
            self._thread = None
        with self._lock:
            for worker in self._workers:
                if worker.workload is None:
                    close_worker(worker)  # an idle worker exits when its pipe is closed
            self._wait_for_results(patience_seconds)
            for number, seconds in ((signal.SIGTERM, self.TERM_SECONDS), (signal.SIGKILL, 10.0)):
                for worker in self._workers:
                    signal_worker(worker, number)
                _until(lambda: not any(w.process.is_alive() for w in self._workers), seconds)
            for worker in list(self._workers):
                self._bury(worker)
            self._waiting.clear()
        for end in (self._wake_reader, self._wake_writer):
            if end is not None:
                end.close()
        self._wake_reader = self._wake_writer = None
        self.sync()

    def _wait_for_results(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while busy := [worker for worker in self._workers if worker.workload and worker.pipe]:
            left = deadline - time.monotonic()
            if left <= 0 or not any(worker.process.is_alive() for worker in busy):
                return
            pipes = [worker.pipe for worker in busy if worker.pipe is not None]
            self._receive_from(wait(pipes, timeout=min(1.0, left)))
            for worker in busy:
                if worker.workload is None:
                    close_worker(worker)


def _until(is_done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_done() and time.monotonic() < deadline:
        time.sleep(0.02)
