"""Hyperparameter studies as Airflow DAGs: each trial in the grid, every decision explained."""

__version__ = "0.1.0"
