"""Airflow's REST API, as far as the command line needs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx

from hpo_ops.cli.command_errors import AirflowAwayError, CommandError

_PAGE = 100  # the most that Airflow gives by default


class AirflowApi:
    """Airflow over REST, logged in."""

    def __init__(self, url: str, *, token: str | None, username: str, password: str) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.Client(base_url=self.url, timeout=60)
        self.token = token or self._log_in(username, password)
        self._http.headers["Authorization"] = f"Bearer {self.token}"

    def _log_in(self, username: str, password: str) -> str:
        try:
            answer = self._http.post(
                "/auth/token", json={"username": username, "password": password}
            )
        except httpx.TransportError as error:
            raise CommandError(
                f"Airflow at {self.url} does not answer ({error}); is it up? Try: hpo up"
            ) from error
        if not answer.is_success:
            raise CommandError(f"Airflow at {self.url} refuses the login of {username!r}")
        token: str = answer.json()["access_token"]
        return token

    def request(self, method: str, path: str, **arguments: Any) -> Any:
        """One request; errors become sentences."""
        try:
            answer = self._http.request(method, f"/api/v2{path}", **arguments)
        except httpx.TransportError as error:
            raise AirflowAwayError(f"Airflow at {self.url} does not answer: {error}") from error
        if answer.status_code == 404:
            raise LookupError(_detail(answer))
        if answer.status_code >= 500:
            raise AirflowAwayError(f"Airflow says {answer.status_code}: {_detail(answer)}")
        if not answer.is_success:
            raise CommandError(f"Airflow says {answer.status_code}: {_detail(answer)}")
        return answer.json() if answer.content else None

    def wait_for_dag(self, dag_id: str, *, seconds: float) -> None:
        """Waits until a DAG is there, since a new study file is seen after some seconds."""
        give_up_at = time.monotonic() + seconds
        while True:
            try:
                self.request("GET", f"/dags/{dag_id}")
            except LookupError:
                if time.monotonic() > give_up_at:
                    raise CommandError(
                        f"Airflow has no DAG {dag_id}: is its study file in dags/studies/?"
                    ) from None
                time.sleep(1)
            else:
                return

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Starts a DAG run and returns its id."""
        run: dict[str, Any] = self.request(
            "POST", f"/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": conf}
        )
        return str(run["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def task_instances(self, dag_id: str, run_id: str) -> Iterator[dict[str, Any]]:
        """All task instances of a run, mapped ones included."""
        offset = 0
        while True:
            page = self.request(
                "GET",
                f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances",
                params={"limit": _PAGE, "offset": offset, "order_by": "map_index"},
            )["task_instances"]
            yield from page
            offset += _PAGE
            if len(page) < _PAGE:
                return

    def log_lines(self, instance: dict[str, Any], *, attempt: int) -> list[dict[str, Any]]:
        """The log of one try of a task instance, as structured lines."""
        path = (
            f"/dags/{instance['dag_id']}/dagRuns/{instance['dag_run_id']}"
            f"/taskInstances/{instance['task_id']}/logs/{attempt}"
        )
        answer = self.request("GET", path, params={"map_index": instance["map_index"]})
        return [line for line in answer["content"] if isinstance(line, dict)]

    def failure_of(self, dag_id: str, run_id: str, task_id: str) -> str | None:
        """What the failed try of a task said last."""
        for instance in self.task_instances(dag_id, run_id):
            if instance["task_id"] == task_id and instance["state"] == "failed":
                lines = self.log_lines(instance, attempt=instance["try_number"])
                for line in reversed(lines):
                    for error in line.get("error_detail") or ():
                        return str(error.get("exc_value") or error.get("exc_type"))
        return None

    def run_page(self, dag_id: str, run_id: str) -> str:
        """Where a person sees the run."""
        return f"{self.url}/dags/{dag_id}/runs/{run_id}"


def _detail(answer: httpx.Response) -> str:
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return answer.text[:300]
    return detail if isinstance(detail, str) else str(detail)
