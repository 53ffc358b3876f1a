"""Mounts the gateway in Airflow's api-server, the only process that is given the ledger."""

import os

from airflow.plugins_manager import AirflowPlugin


def _apps() -> list[dict[str, object]]:
    if "HPO_LEDGER_URL" not in os.environ:
        return []
    from hpo_ops.airflow.plugin import create_gateway

    return [{"name": "hpo-ops", "app": create_gateway(os.environ), "url_prefix": "/hpo"}]


class HpoPlugin(AirflowPlugin):
    """The gateway at ``/hpo``, behind Airflow's login."""

    name = "hpo_ops"
    fastapi_apps = _apps()
