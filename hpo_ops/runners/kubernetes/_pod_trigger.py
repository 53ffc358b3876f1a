"""The Airflow trigger of a segment's pod: fires when the segment has ended, and copies its log.

A segment is one uninterrupted execution of a trial. All triggers of a triggerer process share one
watcher per cluster and namespace, which lists the pods once a second for all of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
from aiohttp import ClientError
from airflow.providers.cncf.kubernetes.hooks.kubernetes import AsyncKubernetesHook
from airflow.triggers.base import BaseTrigger, TriggerEvent
from kubernetes_asyncio import client as kubernetes

from hpo_ops.airflow.connections import connect_triggerer
from hpo_ops.runners.kubernetes._pod_names import MANAGED_BY, SEGMENT_LABEL, TRAINING
from hpo_ops.runners.kubernetes._pod_status import Phase, read_status, telling_reason

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
ALIVE_SECONDS = 20.0
"""Seconds between heartbeats, which extend the leases of segments whose pods exist."""
OK, NOT_FOUND = 200, 404
SELECTOR = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())


class PodWatcher:
    """Lists the pods of one namespace for all triggers that wait for a pod in the namespace."""

    def __init__(self, conn_id: str, namespace: str) -> None:
        self._hook = AsyncKubernetesHook(conn_id=conn_id)
        self._namespace = namespace
        self._waiting: dict[str, list[asyncio.Queue[Any]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._told_at = 0.0
        self._unwanted: set[str] = set()

    def is_unwanted(self, segment: str) -> bool:
        """Returns whether the gateway declared the segment unneeded at the last heartbeat."""
        return segment in self._unwanted

    async def watch(self, segment: str) -> AsyncIterator[Any]:
        """Yields a segment's pod at each poll of the cluster; None if the pod does not exist."""
        queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=1)
        self._waiting.setdefault(segment, []).append(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            while True:
                yield await queue.get()
        finally:
            self._waiting[segment].remove(queue)
            if not self._waiting[segment]:
                del self._waiting[segment]

    async def _look(self) -> None:
        async with self._hook.get_conn() as connection:
            api = kubernetes.CoreV1Api(connection)
            while self._waiting:
                try:
                    await self._look_once(api)
                except Exception as error:  # noqa: BLE001, the cluster or the gateway is away
                    logger.warning("the pods of the namespace cannot be listed: %s", error)
                await asyncio.sleep(POLL_SECONDS)

    async def _look_once(self, api: kubernetes.CoreV1Api) -> None:
        answer = await api.list_namespaced_pod(self._namespace, label_selector=SELECTOR)
        pods = {pod.metadata.labels.get(SEGMENT_LABEL): pod for pod in answer.items}
        for segment, queues in self._waiting.items():
            for queue in queues:
                if queue.full():
                    queue.get_nowait()
                queue.put_nowait(pods.get(segment))
        if time.monotonic() >= self._told_at + ALIVE_SECONDS:
            self._told_at = time.monotonic()
            there = [segment for segment in self._waiting if segment in pods]
            async with httpx.AsyncClient(timeout=30) as client:
                gateway = await connect_triggerer(client)
                self._unwanted = set(await gateway.keep_alive(there))


_watchers: dict[tuple[str, str], PodWatcher] = {}


class SegmentTrigger(BaseTrigger):
    """Fires when a segment's pod has ended or was deleted, or is not to be started any more.

    A pending pod is given up if it cannot start, does not start in time, or is not needed any
    more by its study.

    Args:
        segment: The segment's id.
        namespace: The namespace of the segment's pod.
        pod: The pod's name, by which its log is read.
        conn_id: Name of the Airflow connection to the cluster.
        schedule_timeout: Seconds that the pod may be pending before the trigger fires.
    """

    def __init__(
        self, *, segment: str, namespace: str, pod: str, conn_id: str, schedule_timeout: float
    ) -> None:
        super().__init__()
        self.segment = segment
        self.namespace = namespace
        self.pod = pod
        self.conn_id = conn_id
        self.schedule_timeout = schedule_timeout

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {
            "segment": self.segment,
            "namespace": self.namespace,
            "pod": self.pod,
            "conn_id": self.conn_id,
            "schedule_timeout": self.schedule_timeout,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        watcher = _watchers.setdefault(
            (self.conn_id, self.namespace), PodWatcher(self.conn_id, self.namespace)
        )
        log = asyncio.create_task(self._follow_log())
        said = ""
        try:
            async for pod in watcher.watch(self.segment):
                now = datetime.now(UTC)
                status = read_status(pod, now)
                if status.phase is Phase.ENDED:
                    await asyncio.wait([log], timeout=5)
                    yield TriggerEvent({"reason": status.reason})
                    return
                if status.phase is Phase.PENDING:
                    reason = telling_reason(said, status.reason)
                    if reason != said:
                        said = reason
                        self.log.info("pod %s waits: %s", self.pod, said)
                    if watcher.is_unwanted(self.segment):
                        yield TriggerEvent(
                            {"unwanted": "the study does not need this trial any more"}
                        )
                        return
                    waited = (now - pod.metadata.creation_timestamp).total_seconds()
                    if status.is_hopeless or waited > self.schedule_timeout:
                        timeout = f"the pod did not start within {waited:.0f} s: {said}"
                        yield TriggerEvent({"timeout": timeout})
                        return
        finally:
            log.cancel()

    async def _copy_log(self, answer: Any) -> bool:
        """Copies the training's log from an HTTP answer to the log of the Airflow task.

        Returns:
            True if the log was copied to its end or the pod does not exist; False if the log is
            not available yet.
        """
        if answer.status == OK:
            async for line in answer.content:
                self.log.info("%s", line.decode(errors="replace").rstrip())
        return answer.status in (OK, NOT_FOUND)

    async def _follow_log(self) -> None:
        """Copies the training's output to the log of the Airflow task while the training runs."""
        hook = AsyncKubernetesHook(conn_id=self.conn_id)
        options: dict[str, Any] = {}
        async with hook.get_conn() as connection:
            api = kubernetes.CoreV1Api(connection)
            while True:
                try:
                    answer = await api.read_namespaced_pod_log(
                        self.pod,
                        self.namespace,
                        container=TRAINING,
                        follow=True,
                        **options,
                        _preload_content=False,
                        _request_timeout=None,
                    )
                    is_there = await self._copy_log(answer)
                except (OSError, TimeoutError, ValueError, ClientError):
                    options = {"since_seconds": 2}
                else:
                    if is_there:
                        return
                await asyncio.sleep(POLL_SECONDS)
