"""The plan of a segment's pod: everything that its spec is built from, and its labels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpo_ops.config import Pod, Resources
from hpo_ops.config.pod_policy import PodPolicy
from hpo_ops.protocol import Assignment
from hpo_ops.runners.kubernetes._pod_names import (
    KEY_LABEL,
    MANAGED_BY,
    RUN_LABEL,
    SEGMENT_LABEL,
    STUDY_LABEL,
    TRIAL_LABEL,
)

Spec = dict[str, Any]

UPLOAD_SECONDS = 60
"""Time that the agent has to upload the last checkpoint after the training has ended."""


@dataclass(frozen=True, kw_only=True)
class SegmentPod:
    """Everything that the spec of a segment's pod is built from.

    Attributes:
        assignment: What the segment is to do.
        study: The study's name.
        run_id: The study's DAG run.
        key: The study's path in the store.
        command: The training command.
        image: Image of the training container.
        agent_image: Image with this package, for the containers around it.
        gateway_url: URL of the gateway, as the agent reaches it.
        secret: Name of the Kubernetes secret with the segment's token and the store's keys.
        resources: Resources of the training container.
        pod: The section ``pod`` of the study.
        environment: Environment variables of the training, from the study.
        code: Name of the code archive in the store; None where the image has the code.
        packages: Arguments of ``pip install`` for the code; empty installs nothing.
        policy: What the operator lets studies ask of their pods.
        names_image: Whether the image is the study's own choice, not the platform's.
        has_native_sidecars: Whether the cluster has native sidecar containers (Kubernetes 1.29).
    """

    assignment: Assignment
    study: str
    run_id: str
    key: str
    command: str
    image: str
    agent_image: str
    gateway_url: str
    secret: str
    resources: Resources = field(default_factory=Resources)
    pod: Pod = field(default_factory=Pod)
    environment: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None
    packages: Sequence[str] = ()
    policy: PodPolicy = field(default_factory=PodPolicy)
    names_image: bool = True
    has_native_sidecars: bool = False

    @property
    def name(self) -> str:
        """A readable name; pods are found by their labels, never by name."""
        plain = re.sub(r"[^a-z0-9-]+", "-", self.study.lower()).strip("-")[:35].strip("-")
        return f"hpo-{plain or 'study'}-{self.assignment.trial}-{self.assignment.segment[:8]}"

    @property
    def labels(self) -> dict[str, str]:
        """The labels by which the pod is found."""
        return {
            **trial_labels(self.study, self.run_id, self.assignment.trial, key=self.key),
            SEGMENT_LABEL: self.assignment.segment,
        }


def trial_labels(study: str, run_id: str, trial: int, *, key: str) -> dict[str, str]:
    """The labels that all pods of a trial have.

    Args:
        study: The study's name.
        run_id: Its DAG run.
        trial: The trial's number.
        key: The study's key; other studies may have the same name and run id.
    """
    return {
        **MANAGED_BY,
        STUDY_LABEL: label_value(study),
        RUN_LABEL: label_value(run_id),
        KEY_LABEL: label_value(key),
        TRIAL_LABEL: str(trial),
    }


def label_value(text: str) -> str:
    """Text as a valid label value; a changed text ends with a hash, so that it stays unique."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", text).strip("._-")[:63].strip("._-")
    if plain == text:
        return plain
    return f"{plain[:54].strip('._-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}".strip("-")
