"""What the nodes of a pool have, for the ledger to lease out."""

from __future__ import annotations

import logging
from typing import Any

from hpo_ops.airflow.connections import KUBERNETES
from hpo_ops.airflow.pod_templates import read_template
from hpo_ops.client import GatewayClient
from hpo_ops.config import StudyConfig, parse_study
from hpo_ops.runners.kubernetes.pod_names import GPU, POOL_LABEL
from hpo_ops.runners.kubernetes.pod_spec import shares_of

logger = logging.getLogger(__name__)


def capacity_of(config: StudyConfig) -> float | None:
    """What the pool of a study has; None where that is not for the nodes to say.

    A pool without GPUs is never full for us: the cluster queues what does not fit.
    """
    if config.runner == "local" or not config.resources.gpu:
        return None
    # Imported here: only a study of pods needs it, and it takes seconds.
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

    try:
        nodes = KubernetesHook(conn_id=KUBERNETES).core_v1_client.list_node(
            label_selector=f"{POOL_LABEL}={config.pool}"
        )
    except Exception as error:  # noqa: BLE001, no right to see nodes, or no such connection
        logger.warning("the nodes of the pool %s cannot be seen: %s", config.pool, error)
        return None
    shares = shares_of(read_template(config.resources, config.pod))
    return count_gpus(nodes.items, shares=shares)


def count_again(gateway: GatewayClient) -> dict[str, float]:
    """Tells the gateway what the pools of running studies have by now; returns what was found."""
    found: dict[str, float] = {}
    for study in gateway.ledger_part().studies:
        if study.state not in ("running", "retraining"):
            continue
        config = parse_study(gateway.config(study.id), source=study.key, is_entered=True)
        if config.pool in found or (capacity := capacity_of(config)) is None:
            continue
        found[config.pool] = capacity
        gateway.find_pool(config.pool, capacity)
    return found


def count_gpus(nodes: list[Any], *, shares: int = 1) -> float | None:
    """GPUs of nodes, whole ones also where they are cut into shares; None without any node.

    A pool that has no node yet may grow one on demand.
    """
    if not nodes:
        return None
    return sum(float(node.status.allocatable.get(GPU, 0)) for node in nodes) / shares
