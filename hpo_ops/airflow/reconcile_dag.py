"""The reconciler on a schedule: a DAG whose one task compares ledger, Airflow and cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseHook, BaseOperator
from airflow.sdk.exceptions import AirflowNotFoundException

from hpo_ops.airflow.connections import KUBERNETES, connect_gateway
from hpo_ops.airflow.node_capacity import count_again
from hpo_ops.airflow.running_studies import RunningStudies
from hpo_ops.client.reconciler import Reconciler
from hpo_ops.core.leftovers import LedgerStudy, RunState
from hpo_ops.runners.kubernetes.cluster_leftovers import Cluster

if TYPE_CHECKING:
    from airflow.sdk import Context

DAG_ID = "hpo_reconcile"
EVERY = timedelta(minutes=5)
_DOCUMENT = """Puts right what was left behind: pods, secrets, segments, leases and studies whose
DAG run is gone. The log says what was found. By hand: `hpo doctor`.
"""


class ReconcileOperator(BaseOperator):
    """Finds what was left behind, and repairs it.

    Returns what could not be repaired, in sentences.
    """

    ui_color = "#eceff1"

    def execute(self, context: Context) -> list[str]:
        cluster = self.connect_cluster()
        gateway = connect_gateway()
        reconciler = Reconciler(
            gateway,
            lambda study: run_state(context["ti"], study),
            {"kubernetes": cluster} if cluster else {},
            on_end=lambda study: RunningStudies().forget(study.dag_id, study.run_id),
        )
        done = reconciler.repair(reconciler.look())
        for note in cluster.notes if cluster else ():
            self.log.warning("%s", note)
        if cluster is not None:  # nodes come and go
            for pool, capacity in count_again(gateway).items():
                self.log.info("the nodes of the pool %s have %g", pool, capacity)
        left = []
        for item in done:
            finding = item.finding
            if item.problem:
                left.append(f"{finding.text}: {item.problem}")
                self.log.warning("%s; not repaired: %s", finding.text, item.problem)
            else:
                self.log.info("%s; repaired: %s", finding.text, finding.repair_text)
        if not done:
            self.log.info("nothing was left behind")
        return left

    def connect_cluster(self) -> Cluster | None:
        """The cluster of the connection, where there is one."""
        try:
            BaseHook.get_connection(KUBERNETES)
        except AirflowNotFoundException:
            self.log.info("there is no connection %s: pods are not looked at", KUBERNETES)
            return None
        # Imported here: only where there are pods it is needed, and it takes seconds.
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

        try:
            hook = KubernetesHook(conn_id=KUBERNETES)
            return Cluster(hook.core_v1_client, hook.get_namespace() or "default")
        except Exception as error:  # noqa: BLE001, whatever is wrong with the connection
            self.log.warning("pods are not looked at: %s", error)
            return None


def run_state(task_instance: Any, study: LedgerStudy) -> RunState:
    """The state of a study's DAG run, as a task can learn it.

    A run that is gone is an error to `get_dagrun_state`, like many others; it is counted first.
    """
    if not task_instance.get_dr_count(dag_id=study.dag_id, run_ids=[study.run_id]):
        return RunState.MISSING
    state = task_instance.get_dagrun_state(dag_id=study.dag_id, run_id=study.run_id)
    return RunState.of(str(getattr(state, "value", state)))


def build_reconcile_dag() -> DAG:
    """The DAG of the reconciler."""
    with DAG(
        dag_id=DAG_ID,
        schedule=EVERY,
        start_date=datetime(2025, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=2 * EVERY,
        is_paused_upon_creation=False,
        description="Puts right what studies left behind.",
        tags=["hpo"],
        doc_md=_DOCUMENT,
    ) as dag:
        ReconcileOperator(task_id="reconcile", execution_timeout=EVERY)
    return dag
