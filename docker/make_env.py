"""Writes an `.env` with fresh secrets for docker-compose.yml, which only its owner may read.

Usage: python docker/make_env.py [FILE]    (.env if not given)
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpo_ops.stack.stack_files import write_private
from hpo_ops.stack.stack_secrets import Secrets


def main(arguments: list[str]) -> int:
    """Writes one variable a line; .env.example says what each is for."""
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    path = Path(arguments[0] if arguments else ".env")
    # An empty one was made by a shell: `make_env.py > .env`.
    if path.exists() and path.stat().st_size > 0:
        sys.stderr.write(
            f"{path} is there already. Its secrets are those of the data that is there: delete "
            "it to make new ones, or name another file\n"
        )
        return 1
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
    write_private(path, "".join(f"{name}={value}\n" for name, value in variables.items()))
    sys.stderr.write(f"{path} is written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
