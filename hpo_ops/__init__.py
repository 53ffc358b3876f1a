"""Hyperparameter studies as Airflow DAGs: each trial a pod, every decision explained."""

__version__ = "0.1.0"
