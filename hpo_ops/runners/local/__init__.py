"""The runner `local`, which executes trials as processes of the Airflow worker."""
