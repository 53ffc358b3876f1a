"""Every five minutes: puts right what studies left behind."""

from hpo_ops.airflow.reconcile_dag import build_reconcile_dag

dag = build_reconcile_dag()
