"""Runs studies in Airflow: the DAG factory, operators, triggers, sensors and an executor."""
