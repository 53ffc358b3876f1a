"""Builds the environment variables that are the whole configuration of Airflow's services."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from hpo_ops.stack._free_ports import LOOPBACK
from hpo_ops.stack._object_store import BUCKET, REGION
from hpo_ops.stack._object_store_security import POD_ROLE_ARN
from hpo_ops.stack._stack_settings import USERNAME, Settings
from hpo_ops.stack.stack_files import Layout
from hpo_ops.stack.stack_secrets import Secrets

EXECUTOR = "hpo_ops.airflow.executor.WorkerPipeExecutor"
# A port on which nothing ever listens. Logs are read from the shared folder.
_NO_PORT = "1"


def airflow_environment(
    layout: Layout, settings: Settings, secrets: Secrets, *, database_url: str, s3_endpoint: str
) -> dict[str, str]:
    """Returns the environment of every Airflow service and command of a stack.

    Args:
        layout: The files of the stack.
        settings: The folders and ports of the stack.
        secrets: The passwords and keys of the stack.
        database_url: The SQLAlchemy URL of Airflow's database.
        s3_endpoint: The URL of the S3 server.
    """
    options = {
        "core": _core(layout, settings, secrets),
        "database": {"sql_alchemy_conn": database_url},
        "api": {
            "base_url": settings.url,
            "host": LOOPBACK,
            "port": str(settings.port),
            "secret_key": secrets.api_secret_key,
            "workers": "1",
        },
        "api_auth": {"jwt_secret": secrets.jwt_secret},
        "logging": {
            "base_log_folder": str(layout.airflow / "logs"),
            "dag_processor_child_process_log_directory": str(
                layout.airflow / "logs" / "dag_processor"
            ),
            "worker_log_server_port": _NO_PORT,
            "trigger_log_server_port": _NO_PORT,
        },
        "scheduler": {
            "enable_health_check": "False",
            "scheduler_idle_sleep_time": "0.1",
            # Seconds without a heartbeat after which a worker counts as killed and its task is
            # retried.
            "task_instance_heartbeat_timeout": "90",
            # The same limit for a worker that was killed before its task started.
            "task_queued_timeout": "120",
            "task_queued_timeout_check_interval": "15",
            # The same limit for the tasks of a scheduler that was killed.
            "scheduler_health_check_threshold": "20",
            "orphaned_tasks_check_interval": "30",
        },
        "workers": {
            # Maximum seconds for which a task that has ended occupies its worker.
            "min_heartbeat_interval": "1",
            # Running tasks survive a restart of the api-server (30 s, more on a busy machine).
            "max_failed_heartbeats": "60",
            "execution_api_retries": "30",
            "execution_api_retry_wait_max": "5.0",
        },
        "dag_processor": {"refresh_interval": "10", "min_file_process_interval": "10"},
    }
    return {
        **_inherited(settings),
        "AIRFLOW_HOME": str(layout.airflow),
        **{
            f"AIRFLOW__{section.upper()}__{key.upper()}": value
            for section, keys in options.items()
            for key, value in keys.items()
        },
        "AIRFLOW_CONN_HPO_GATEWAY": _gateway_connection(settings, secrets),
        "AIRFLOW_CONN_HPO_S3": _s3_connection(secrets, endpoint=s3_endpoint),
        "HPO_CHECKPOINT_STORE": f"s3://{BUCKET}",
        **settings.extra_environment,
    }


def api_server_environment(secrets: Secrets, *, ledger_url: str) -> dict[str, str]:
    """Returns the additional environment variables of the api-server.

    They give access to the ledger (the database of all studies), which other services must not
    have.
    """
    return {"HPO_LEDGER_URL": ledger_url, "HPO_GATEWAY_KEYS": secrets.keys.to_text()}


def _core(layout: Layout, settings: Settings, secrets: Secrets) -> dict[str, str]:
    return {
        "dags_folder": str(settings.dags),
        "plugins_folder": str(settings.plugins),
        "executor": EXECUTOR,
        "parallelism": str(max(4, 2 * (os.cpu_count() or 1))),
        "load_examples": "False",
        "dags_are_paused_at_creation": "False",
        # Airflow's default makes a DNS request.
        "hostname_callable": "socket.gethostname",
        "fernet_key": secrets.fernet_key,
        "simple_auth_manager_users": f"{USERNAME}:admin",
        "simple_auth_manager_passwords_file": str(layout.passwords_file),
    }


def _inherited(settings: Settings) -> dict[str, str]:
    """Returns the environment variables of this process that Airflow's services inherit.

    Variables that would configure Airflow or the gateway are removed, and the project's folder
    `config/` is added to `PYTHONPATH`.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW_", "_AIRFLOW_", "HPO_LEDGER", "HPO_GATEWAY", "PYTEST_"))
        # Without byte code, importing Airflow takes each process 14 s of CPU instead of 4.
        and name != "PYTHONDONTWRITEBYTECODE"
    }
    return {
        **kept,
        "PYTHONPATH": _joined(str(settings.project / "config"), kept.get("PYTHONPATH", "")),
        "PYTHONUNBUFFERED": "1",
        **_no_proxy(kept),
        # Setting a process title would overwrite the environment, by which processes are found.
        "SPT_NOENV": "1",
    }


def _no_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: ",".join(filter(None, (environment.get(name), LOOPBACK, "localhost")))
        for name in ("NO_PROXY", "no_proxy")
    }


def _joined(first: str, rest: str) -> str:
    return os.pathsep.join(part for part in (first, rest) if part)


def _gateway_connection(settings: Settings, secrets: Secrets) -> str:
    connection = {
        "conn_type": "http",
        "host": LOOPBACK,
        "port": settings.port,
        "schema": "http",
        "password": secrets.keys.task_key(),
    }
    return json.dumps(connection)


def _s3_connection(secrets: Secrets, *, endpoint: str) -> str:
    connection = {
        "conn_type": "aws",
        "login": secrets.s3_access_key,
        "password": secrets.s3_secret_key,
        "extra": {
            "endpoint_url": endpoint,
            "region_name": REGION,
            "pod_role_arn": POD_ROLE_ARN,
        },
    }
    return json.dumps(connection)
