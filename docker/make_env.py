"""Prints an `.env` with fresh secrets for docker-compose.yml."""

from __future__ import annotations

import sys

from hpo_ops.stack.secrets import Secrets


def main() -> None:
    """Writes one variable a line; .env.example says what each is for."""
    made = Secrets()
    variables = {
        "POSTGRES_PASSWORD": made.postgres_password,
        "AIRFLOW_DATABASE_PASSWORD": made.airflow_database_password,
        "LEDGER_DATABASE_PASSWORD": made.ledger_database_password,
        "AIRFLOW_FERNET_KEY": made.fernet_key,
        "AIRFLOW_API_SECRET_KEY": made.api_secret_key,
        "AIRFLOW_JWT_SECRET": made.jwt_secret,
        "AIRFLOW_ADMIN_PASSWORD": made.admin_password,
        "S3_ACCESS_KEY": made.s3_access_key,
        "S3_SECRET_KEY": made.s3_secret_key,
        "HPO_GATEWAY_KEYS": made.gateway_keys,
        "HPO_TASK_KEY": made.keys.task_key(),
    }
    for name, value in variables.items():
        sys.stdout.write(f"{name}={value}\n")


if __name__ == "__main__":
    main()
