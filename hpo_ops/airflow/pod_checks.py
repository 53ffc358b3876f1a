"""Checks what a study asks of its pods against the operator's pod policy."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk.exceptions import AirflowFailException

from hpo_ops.airflow.connections import KUBERNETES
from hpo_ops.config import StudyConfig, StudyError
from hpo_ops.config.pod_policy import POLICY_VARIABLE, PodPolicy, load_pod_policy
from hpo_ops.runners.kubernetes.pod_admission import find_refusals, judge_namespace
from hpo_ops.runners.kubernetes.pod_spec import template_name

DEFAULT_NAMESPACE = "default"


def read_pod_policy() -> PodPolicy:
    """The operator's pod policy; the safe defaults where there is no file.

    Raises:
        AirflowFailException: The file cannot be used: no pod is started without it.
    """
    path = os.environ.get(POLICY_VARIABLE)
    if not path:
        return PodPolicy()
    try:
        return load_pod_policy(Path(path))
    except ValueError as error:
        raise AirflowFailException(str(error)) from error


def check_pods(config: StudyConfig, *, source: str) -> None:
    """Refuses a study whose pods the operator's policy does not allow.

    Args:
        config: The study.
        source: Where it comes from, for messages.

    Raises:
        StudyError: Names everything that the study may not have.
    """
    if config.runner == "local":
        return
    policy = read_pod_policy()
    problems = find_refusals(
        config.pod,
        policy,
        image=config.image,
        environment=config.env,
        template=template_name(config.resources, config.pod),
    )
    if config.pod.namespace is not None:
        problems += judge_namespace(config.pod.namespace, policy, own=_own_namespace())
    if problems:
        raise StudyError(source, problems)


def _own_namespace() -> str:
    """The namespace of the cluster's connection."""
    # Imported here: only a study that names a namespace needs it, and it takes seconds.
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

    return KubernetesHook(conn_id=KUBERNETES).get_namespace() or DEFAULT_NAMESPACE
