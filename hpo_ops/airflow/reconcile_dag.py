"""The DAG of the reconciler: its only task finds and repairs leftovers of crashes periodically.

A leftover is a resource (such as a pod) without a segment, a segment without its resource, or a
study without its DAG run.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator

from hpo_ops.airflow._running_studies import RunningStudies
from hpo_ops.airflow.connections import connect_gateway
from hpo_ops.client import GatewayClient
from hpo_ops.client.reconciler import Reconciler
from hpo_ops.config import parse_study
from hpo_ops.config.runner_registry import all_runners, find_runner
from hpo_ops.core.leftovers import LedgerStudy, RunState
from hpo_ops.core.runner_resources import ResourcesUnavailableError, RunnerResources

if TYPE_CHECKING:
    from airflow.sdk import Context

DAG_ID = "hpo_reconcile"
EVERY = timedelta(minutes=5)
_DOCUMENT = """Repairs leftovers of crashes: pods, containers, secrets, segments, leases, and
studies whose DAG run is gone. The log says what was found. By hand: `hpo doctor`.
"""


class ReconcileOperator(BaseOperator):
    """Finds and repairs leftovers; returns a sentence for each leftover that was not repaired."""

    ui_color = "#eceff1"

    def execute(self, context: Context) -> list[str]:
        resources = self.open_resources()
        gateway = connect_gateway()
        reconciler = Reconciler(
            gateway,
            lambda study: run_state(context["ti"], study),
            resources,
            on_end=lambda study: RunningStudies().forget(study.dag_id, study.run_id),
        )
        done = reconciler.repair(reconciler.look())
        for access in resources.values():
            for note in access.notes:
                self.log.warning("%s", note)
        for pool, capacity in update_capacities(gateway).items():
            self.log.info("the pool %s has a capacity of %g", pool, capacity)
        left = []
        for item in done:
            finding = item.finding
            if item.problem:
                left.append(f"{finding.text}: {item.problem}")
                self.log.warning("%s; not repaired: %s", finding.text, item.problem)
            else:
                self.log.info("%s; repaired: %s", finding.text, finding.repair_text)
        if not done:
            self.log.info("no leftovers found")
        return left

    def open_resources(self) -> dict[str, RunnerResources]:
        """Opens access to the resources (such as pods) of each configured runner.

        Returns:
            The access by the runner's name. Runners that cannot be reached are left out and
            logged; runners that are not configured are left out.
        """
        found: dict[str, RunnerResources] = {}
        for name, runner in all_runners().items():
            try:
                access = runner.resources_of_task()
            except ResourcesUnavailableError as error:
                self.log.warning("resources of the runner %s are not judged: %s", name, error)
                continue
            if access is not None:
                found[name] = access
        return found


def update_capacities(gateway: GatewayClient) -> dict[str, float]:
    """Determines the capacity (number of units) of each running study's pool.

    The capacities are sent to the gateway.

    The capacity can change while studies run, because cluster nodes are added and removed.

    Returns:
        The capacity by the pool's name; pools whose capacity the runner cannot determine are left
        out.
    """
    found: dict[str, float] = {}
    for study in gateway.ledger_part().studies:
        if study.state not in ("running", "retraining"):
            continue
        config = parse_study(gateway.config(study.id), source=study.key, is_entered=True)
        if config.pool in found:
            continue
        capacity = find_runner(config.runner).pool_capacity(config)
        if capacity is not None:
            found[config.pool] = capacity
            gateway.find_pool(config.pool, capacity)
    return found


def run_state(task_instance: Any, study: LedgerStudy) -> RunState:
    """Returns the state of a study's DAG run; ``MISSING`` if the run was deleted.

    The DAG runs with the id are counted first, because `get_dagrun_state` raises the same
    exception for a deleted run as for other errors.

    Args:
        task_instance: The task instance of the reconciler, through which Airflow is queried.
        study: The study in the ledger.
    """
    if not task_instance.get_dr_count(dag_id=study.dag_id, run_ids=[study.run_id]):
        return RunState.MISSING
    state = task_instance.get_dagrun_state(dag_id=study.dag_id, run_id=study.run_id)
    return RunState.of(str(getattr(state, "value", state)))


def build_reconcile_dag() -> DAG:
    """Builds the DAG of the reconciler."""
    with DAG(
        dag_id=DAG_ID,
        schedule=EVERY,
        start_date=datetime(2025, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=2 * EVERY,
        is_paused_upon_creation=False,
        description="Repairs what crashes of studies left behind.",
        tags=["hpo"],
        doc_md=_DOCUMENT,
    ) as dag:
        ReconcileOperator(task_id="reconcile", execution_timeout=EVERY)
    return dag
