"""The cluster of the Airflow connection ``kubernetes_default``, for tasks."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from hpo_ops.core.runner_resources import ResourcesUnavailableError
from hpo_ops.runners.kubernetes._cluster_leftovers import Cluster

KUBERNETES = "kubernetes_default"
"""Connection of the cluster in which trials are pods."""
DEFAULT_NAMESPACE = "default"
"""Namespace of pods where neither the study nor the connection names one."""


def connect_hook() -> Any:
    """Airflow's hook for the cluster."""
    # Imported here: it takes seconds, and only studies of pods need it.
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

    return KubernetesHook(conn_id=KUBERNETES)


def connection_namespace() -> str:
    """The namespace of the connection."""
    return connect_hook().get_namespace() or DEFAULT_NAMESPACE


def connect_by_airflow() -> Cluster | None:
    """The cluster of the connection; None where there is no such connection.

    Raises:
        ResourcesUnavailableError: The connection cannot be used; says why.
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
