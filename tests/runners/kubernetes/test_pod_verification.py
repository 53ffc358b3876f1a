from __future__ import annotations

from typing import Any

import pytest

from hpo_ops.config import Pod
from hpo_ops.config.pod_policy import PodPolicy
from hpo_ops.runners.kubernetes._pod_admission import PodRefusedError
from hpo_ops.runners.kubernetes._pod_spec import build_pod
from hpo_ops.runners.kubernetes._pod_verification import check_built
from tests.runners.kubernetes.test_pod_admission import SEGMENT_SECRET, sidecar, training
from tests.runners.kubernetes.test_pod_spec import build, plan


def test_what_the_template_selects_stays() -> None:
    platform = {"metadata": {}, "spec": {"nodeSelector": {"team": "a"}, "containers": []}}
    for changed in ({"team": "b"}, {}):
        built = {"metadata": {}, "spec": {"nodeSelector": changed, "containers": []}}
        with pytest.raises(PodRefusedError, match=r"nodeSelector\.team"):
            check_built(platform, built, PodPolicy())


def test_what_the_template_says_of_security_and_mounts_stays() -> None:
    own = {
        "spec": {
            "securityContext": {"runAsUser": 5000},
            "containers": [{"name": "base", "securityContext": {"readOnlyRootFilesystem": True}}],
            "volumes": [{"name": "team", "secret": {"secretName": "team"}}],
        }
    }
    for spec, problem in [
        ({"securityContext": {"runAsUser": 6000}}, "securityContext.runAsUser of spec"),
        (training(securityContext={"runAsUser": 6000}), "runAsUser of the container base"),
        (sidecar(securityContext={"runAsUser": 6000}), "runAsUser of the container mine"),
        (training(securityContext={"readOnlyRootFilesystem": False}), "readOnlyRootFilesystem"),
        (
            {
                "volumes": [{"name": "team", "secret": {"secretName": "team"}}],
                **training(volumeMounts=[{"name": "team", "mountPath": "/x"}]),
            },
            "the container base mounts team",
        ),
    ]:
        with pytest.raises(PodRefusedError, match=problem):
            build_pod(own, plan(pod=Pod(spec=spec)))
    harmless = training(securityContext={"runAsUser": 5000, "readOnlyRootFilesystem": True})
    build_pod(own, plan(pod=Pod(spec=harmless)))


@pytest.mark.parametrize(
    "change",
    [
        {"hostIPC": True},
        {"serviceAccountName": "admin"},
        {"volumes": []},
        {"containers": [{"name": "base"}, {"name": "agent", "command": ["sh"]}]},
        {"containers": [{"name": "base"}]},
        {"containers": [{"name": "base", "args": ["other"]}, {"name": "agent"}]},
        {"containers": [{"name": "base"}, {"name": "agent"}, {"name": "agent"}]},
        {
            "containers": [
                {"name": "base", "envFrom": [{"secretRef": {"name": SEGMENT_SECRET}}]},
                {"name": "agent"},
            ]
        },
    ],
)
def test_a_built_pod_whose_platform_part_has_changed_is_refused(change: dict[str, Any]) -> None:
    """Whatever way the study found around the rules on its part."""
    spec: dict[str, Any] = {
        "containers": [{"name": "base"}, {"name": "agent"}],
        "volumes": [{"name": "hpo", "emptyDir": {}}],
    }
    platform: dict[str, Any] = {"metadata": {"labels": {}}, "spec": spec}
    check_built(platform, platform, PodPolicy())
    with pytest.raises(PodRefusedError):
        check_built(platform, {**platform, "spec": {**spec, **change}}, PodPolicy())


def test_no_volume_of_the_platforms_is_had_by_declaring_it_once_more() -> None:
    for volume in build()["spec"]["volumes"]:
        mount = {"name": volume["name"], "mountPath": "/x"}
        for container in (training(volumeMounts=[mount]), sidecar(volumeMounts=[mount])):
            with pytest.raises(PodRefusedError):
                build(pod=Pod(spec={"volumes": [volume], **container}))
