"""One DAG for each study file in ``studies/``."""

from pathlib import Path

from hpo_ops.airflow.factory import build_dags

globals().update(build_dags(Path(__file__).parent / "studies"))
