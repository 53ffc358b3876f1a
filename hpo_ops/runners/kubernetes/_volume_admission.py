"""Checks the volumes under a study's ``pod.spec`` against the pod policy.

The pod policy is set by the operator, the person who runs the platform.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpo_ops.config import Pod
from hpo_ops.config.pod_policy import PodPolicy
from hpo_ops.config.study_errors import shown
from hpo_ops.runners.kubernetes._container_admission import (
    PLATFORM_VOLUMES,
    Spec,
    allowed_by,
    judge_name,
    judge_secret,
)
from hpo_ops.runners.kubernetes._pod_names import AGENT_TEMPORARY, AGENT_VOLUME, TRAINING_TEMPORARY

_AGENT_AND_TEMPORARY = (AGENT_VOLUME, AGENT_TEMPORARY, TRAINING_TEMPORARY)


def judge_volume(path: str, volume: Spec, pod: Pod, policy: PodPolicy) -> Iterator[str]:
    """Yields the reasons why a volume that a study declares is refused; none if it is allowed.

    Args:
        path: The volume's path in the study, for messages.
        volume: The volume.
        pod: The study's section ``pod``.
        policy: The operator's pod policy.
    """
    if volume["name"] in (*PLATFORM_VOLUMES, *_AGENT_AND_TEMPORARY):
        yield f"{path} is a volume of the platform, which studies may not change"
    for kind, content in volume.items():
        if kind == "name":
            continue
        where = f"{path}.{kind}"
        if not isinstance(content, Mapping):
            yield f"{where} is {shown(content)}, but must be a mapping"
        elif kind == "hostPath":
            yield from _judge_host_path(f"{where}.path", content.get("path"), policy)
        elif kind not in policy.volumes:
            setting = f"volumes: [{kind}]"
            yield f"{where} is not a kind of volume for studies; {allowed_by(setting)}"
        else:
            yield from _judge_volume_source(where, kind, content, pod, policy)


def _judge_volume_source(
    path: str, kind: str, content: Spec, pod: Pod, policy: PodPolicy
) -> Iterator[str]:
    if kind == "secret":
        yield from judge_secret(f"{path}.secretName", content.get("secretName"), policy)
    elif kind == "configMap":
        yield from judge_name(
            f"{path}.name", content.get("name"), policy.config_maps, setting="config_maps"
        )
    elif kind == "persistentVolumeClaim":
        yield from judge_name(
            f"{path}.claimName", content.get("claimName"), policy.claims, setting="claims"
        )
    elif kind == "ephemeral":
        yield from _judge_ephemeral(path, content)
    elif kind == "projected":
        yield from _judge_projected(path, content, pod, policy)


def _judge_ephemeral(path: str, content: Spec) -> Iterator[str]:
    """Yields the reasons why an ephemeral volume is refused; none if it is allowed.

    The volume must be new and empty: it may not copy a claim or use an existing volume.
    """
    template = content.get("volumeClaimTemplate")
    spec = template.get("spec") if isinstance(template, Mapping) else None
    if not isinstance(spec, Mapping):
        yield f"{path} is {shown(content)}, but must have volumeClaimTemplate.spec"
        return
    for key in sorted({"dataSource", "dataSourceRef", "selector", "volumeName"} & set(spec)):
        yield f"{path}.volumeClaimTemplate.spec.{key} is not a field that a study may set"


def _judge_projected(path: str, content: Spec, pod: Pod, policy: PodPolicy) -> Iterator[str]:
    sources = content.get("sources", [])
    if not isinstance(sources, list) or not all(isinstance(item, Mapping) for item in sources):
        yield f"{path}.sources is {shown(sources)}, but must be a list of mappings"
        return
    has_token = policy.service_account_token and pod.service_account is not None
    kinds = (
        "configMap",
        "downwardAPI",
        "secret",
        *(("serviceAccountToken",) if has_token else ()),
    )
    for number, source in enumerate(sources):
        for kind, item in source.items():
            where = f"{path}.sources[{number}].{kind}"
            if kind not in kinds or not isinstance(item, Mapping):
                yield f"{where} is not a source for studies (sources: {', '.join(kinds)})"
            elif kind == "secret":
                yield from judge_secret(f"{where}.name", item.get("name"), policy)
            elif kind == "configMap":
                yield from _judge_volume_source(where, kind, item, pod, policy)


def _judge_host_path(path: str, found: object, policy: PodPolicy) -> Iterator[str]:
    parts = found.split("/") if isinstance(found, str) else []
    is_below = isinstance(found, str) and any(
        root == "/" or found == root or found.startswith(f"{root}/") for root in policy.host_paths
    )
    if not is_below or ".." in parts:
        yield (
            f"{path} is {shown(found)}, but folders of the node are not for studies; "
            f"{allowed_by('host_paths')}"
        )
