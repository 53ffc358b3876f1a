"""Studies in Airflow: the DAG factory, operators, triggers and sensors."""
