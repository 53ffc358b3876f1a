"""Connects Airflow tasks to the cluster of the Airflow connection ``kubernetes_default``."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from hpo_ops.core.runner_resources import ResourcesUnavailableError
from hpo_ops.runners.kubernetes._cluster_leftovers import Cluster

KUBERNETES = "kubernetes_default"
"""Name of the Airflow connection to the cluster in which trials run as pods."""
DEFAULT_NAMESPACE = "default"
"""Namespace of pods if neither the study nor the connection names a namespace."""


def connect_hook() -> Any:
    """Returns Airflow's Kubernetes hook for the connection ``kubernetes_default``."""
    # Imported here: it takes seconds, and only studies of pods need it.
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

    return KubernetesHook(conn_id=KUBERNETES)


def connection_namespace() -> str:
    """Returns the namespace that ``kubernetes_default`` names, or else `DEFAULT_NAMESPACE`."""
    return connect_hook().get_namespace() or DEFAULT_NAMESPACE


def connect_by_airflow() -> Cluster | None:
    """Connects to the cluster of ``kubernetes_default``; returns None if Airflow does not know it.

    Raises:
        ResourcesUnavailableError: The connection cannot be used, for the reason in the message.
    """
    try:
        BaseHook.get_connection(KUBERNETES)
    except AirflowNotFoundException:
        return None
    try:
        hook = connect_hook()
        return Cluster(hook.core_v1_client, hook.get_namespace() or DEFAULT_NAMESPACE)
    except Exception as error:  # whatever is wrong with the connection
        raise ResourcesUnavailableError(
            f"the Airflow connection {KUBERNETES} cannot be used: {error}"
        ) from error
