"""Counts the GPUs on the nodes of a pool, which are the capacity that studies share."""

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
    """Returns the number of GPUs of a study's pool.

    Returns:
        The number of GPUs; None, for no limit, if the study requests no GPUs, or the pool's nodes
        cannot be listed or do not exist yet. The cluster itself then queues pods that do not fit.
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
    """Returns the total number of physical GPUs of a pool's nodes.

    Args:
        nodes: The nodes of a pool.
        shares: Number of shares into which each GPU is divided; a node reports each share as one
            GPU.

    Returns:
        The number of GPUs; None if the pool has no nodes, since an autoscaler may add nodes.
    """
    if not nodes:
        return None
    return sum(float(node.status.allocatable.get(GPU, 0)) for node in nodes) / shares
