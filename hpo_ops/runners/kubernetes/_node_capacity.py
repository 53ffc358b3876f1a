"""The capacity of a pool, counted on its nodes: the ledger leases it out to studies."""

from __future__ import annotations

import logging
from typing import Any

from hpo_ops.config import StudyConfig
from hpo_ops.runners.kubernetes._cluster_connection import connect_hook
from hpo_ops.runners.kubernetes._pod_names import GPU, POOL_LABEL
from hpo_ops.runners.kubernetes._pod_spec import shares_of
from hpo_ops.runners.kubernetes._pod_templates import read_template

logger = logging.getLogger(__name__)


def capacity_of_pool(config: StudyConfig) -> float | None:
    """GPUs of a study's pool; None where the nodes cannot be seen, or the pool has no GPUs.

    A pool without GPUs is unlimited for the ledger: the cluster queues pods that do not fit.
    """
    if not config.resources.gpu:
        return None
    try:
        nodes = connect_hook().core_v1_client.list_node(
            label_selector=f"{POOL_LABEL}={config.pool}"
        )
    except Exception as error:  # noqa: BLE001, no right to see nodes, or no such connection
        logger.warning("the nodes of the pool %s cannot be seen: %s", config.pool, error)
        return None
    shares = shares_of(read_template(config.resources, config.pod))
    return count_gpus(nodes.items, shares=shares)


def count_gpus(nodes: list[Any], *, shares: int = 1) -> float | None:
    """Physical GPUs of nodes; None without any node, since an autoscaler may add some.

    Args:
        nodes: The nodes of a pool.
        shares: Into how many shares each GPU is cut; a node counts its shares as GPUs.
    """
    if not nodes:
        return None
    return sum(float(node.status.allocatable.get(GPU, 0)) for node in nodes) / shares
