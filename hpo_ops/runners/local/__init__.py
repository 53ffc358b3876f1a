"""Trials as processes of the Airflow worker."""
