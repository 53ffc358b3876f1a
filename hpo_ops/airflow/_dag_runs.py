"""Starts DAG runs and reads their states, for the gateway inside Airflow's api-server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import DagNotFound, DagRunAlreadyExists
from airflow.models import DagRun
from airflow.utils.types import DagRunTriggeredByType


class AirflowRuns:
    """Starts DAG runs and reads their states in Airflow's database, without checks of permissions.

    Callers of `start` must have checked that the user may start the DAG run.
    """

    def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any], *, user: str) -> None:
        """Starts a DAG run; does nothing if a run with this id exists.

        Raises:
            LookupError: The DAG does not exist yet.
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
