"""DAG runs of Airflow, started by the gateway inside the api-server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import DagNotFound, DagRunAlreadyExists
from airflow.models import DagRun
from airflow.utils.types import DagRunTriggeredByType


class AirflowRuns:
    """DAG runs in Airflow's database. The caller must have checked the right to start them."""

    def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any], *, user: str) -> None:
        """Starts a DAG run; does nothing if there is one with that id.

        Raises:
            LookupError: There is no such DAG yet.
        """
        try:
            trigger_dag(
                dag_id,
                triggered_by=DagRunTriggeredByType.REST_API,
                triggering_user_name=user,
                run_id=run_id,
                conf=dict(conf),
            )
        except DagRunAlreadyExists:
            return
        except DagNotFound as error:
            raise LookupError(f"Airflow has no DAG {dag_id}: is dags/ in place?") from error

    def state(self, dag_id: str, run_id: str) -> str | None:
        run = DagRun.find_duplicate(dag_id=dag_id, run_id=run_id)
        return str(run.state) if run is not None else None
