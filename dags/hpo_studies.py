"""One DAG for each study file in ``studies/``, and ``hpo_study``, which takes a whole study."""

from pathlib import Path

from airflow.sdk import get_parsing_context

from hpo_ops.airflow.dag_factory import build_dags

globals().update(build_dags(Path(__file__).parent / "studies", only=get_parsing_context().dag_id))
