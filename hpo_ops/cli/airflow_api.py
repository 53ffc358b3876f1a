"""A client of Airflow's REST API, with the requests that the command line needs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx

from hpo_ops.cli.command_errors import AirflowUnavailableError, CommandError

_PAGE = 100  # Airflow's default maximum of a page


class AirflowApi:
    """A client of Airflow's REST API that authenticates with a user's token.

    Args:
        url: The URL of Airflow's api-server.
        token: The user's token; None to log in with username and password.
        username: The username; ignored if a token is given.
        password: The password; ignored if a token is given.

    Raises:
        CommandError: Airflow does not answer or rejects the login.
    """

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
        """Sends one request and returns the parsed JSON of the response.

        Raises:
            LookupError: Airflow answers with the status 404.
            AirflowUnavailableError: Airflow does not answer, or answers with a server error.
            CommandError: Airflow answers with another error status.
        """
        try:
            answer = self._http.request(method, f"/api/v2{path}", **arguments)
        except httpx.TransportError as error:
            raise AirflowUnavailableError(
                f"Airflow at {self.url} does not answer: {error}"
            ) from error
        if answer.status_code == 404:
            raise LookupError(_detail(answer))
        if answer.status_code >= 500:
            raise AirflowUnavailableError(
                f"Airflow answers {method} {path} with {answer.status_code}: {_detail(answer)}"
            )
        if not answer.is_success:
            raise CommandError(
                f"Airflow answers {method} {path} with {answer.status_code}: {_detail(answer)}"
            )
        return answer.json() if answer.content else None

    def wait_for_dag(self, dag_id: str, *, seconds: float) -> None:
        """Waits until Airflow has a DAG, since Airflow parses a new study file with a delay.

        Raises:
            CommandError: Airflow does not have the DAG after the given number of seconds.
        """
        give_up_at = time.monotonic() + seconds
        while True:
            try:
                self.request("GET", f"/dags/{dag_id}")
            except LookupError:
                if time.monotonic() > give_up_at:
                    raise CommandError(
                        f"Airflow has no DAG {dag_id} after {seconds:g} s: "
                        "is its study file in dags/studies/?"
                    ) from None
                time.sleep(1)
            else:
                return

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Triggers a run of a DAG with the given ``conf`` and returns the run's id."""
        run: dict[str, Any] = self.request(
            "POST", f"/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": conf}
        )
        return str(run["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def task_instances(self, dag_id: str, run_id: str) -> Iterator[dict[str, Any]]:
        """Yields all task instances of a DAG run, including mapped task instances."""
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
        """Returns the structured log lines of one attempt (Airflow's try) of a task instance."""
        path = (
            f"/dags/{instance['dag_id']}/dagRuns/{instance['dag_run_id']}"
            f"/taskInstances/{instance['task_id']}/logs/{attempt}"
        )
        answer = self.request("GET", path, params={"map_index": instance["map_index"]})
        return [line for line in answer["content"] if isinstance(line, dict)]

    def failure_of(self, dag_id: str, run_id: str, task_id: str) -> str | None:
        """Returns the last error in the log of a task of a DAG run.

        Returns None if the task has not failed, or if its log contains no error.
        """
        for instance in self.task_instances(dag_id, run_id):
            if instance["task_id"] == task_id and instance["state"] == "failed":
                lines = self.log_lines(instance, attempt=instance["try_number"])
                for line in reversed(lines):
                    for error in line.get("error_detail") or ():
                        return str(error.get("exc_value") or error.get("exc_type"))
        return None

    def run_page(self, dag_id: str, run_id: str) -> str:
        """Returns the URL of a DAG run in the Airflow UI."""
        return f"{self.url}/dags/{dag_id}/runs/{run_id}"


def _detail(answer: httpx.Response) -> str:
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return answer.text[:300]
    return detail if isinstance(detail, str) else str(detail)
