"""Checks a study against the operator's pod policy before its first pod is started.

The operator is the person who runs the platform.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk.exceptions import AirflowFailException

from hpo_ops.airflow.connections import pods_get_platform_keys
from hpo_ops.config import StudyConfig
from hpo_ops.config.pod_policy import POLICY_VARIABLE, PodPolicy, load_pod_policy
from hpo_ops.runners.kubernetes._cluster_connection import connection_namespace
from hpo_ops.runners.kubernetes._pod_admission import find_refusals, judge_namespace
from hpo_ops.runners.kubernetes._pod_spec import template_name

PLATFORM_KEYS = (
    "pods get the platform's own keys of the store, good for every study in it: name a role in "
    "pod_role_arn of the connection hpo_s3, and they get credentials of their own trial instead"
)


def read_pod_policy() -> PodPolicy:
    """Reads the operator's pod policy; returns safe defaults if no policy file is configured.

    Raises:
        AirflowFailException: The configured file is missing or invalid; no pod may be started.
    """
    path = os.environ.get(POLICY_VARIABLE)
    if not path:
        return PodPolicy()
    try:
        return load_pod_policy(Path(path))
    except ValueError as error:
        raise AirflowFailException(str(error)) from error


def find_study_refusals(config: StudyConfig) -> list[str]:
    """Returns one sentence for each pod setting of a study that the pod policy does not allow."""
    policy = read_pod_policy()
    problems = find_refusals(
        config.pod,
        policy,
        image=config.image,
        environment=config.env,
        template=template_name(config.resources, config.pod),
    )
    if config.pod.namespace is not None:
        problems += judge_namespace(config.pod.namespace, policy, own=connection_namespace())
    return problems


def find_study_warnings() -> list[str]:
    """Returns a list of warnings on the configuration that the operator should correct.

    It has one warning if pods get the platform's own keys of the store, and is empty otherwise.
    """
    return [PLATFORM_KEYS] if pods_get_platform_keys() else []
