"""The settings from which the pod of a segment is built, and the pod's labels.

A segment is one uninterrupted execution of a trial.
"""

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
"""Seconds that the agent has to upload the last checkpoint after the training has ended."""


@dataclass(frozen=True, kw_only=True)
class SegmentPod:
    """The settings from which a segment's pod is built.

    Attributes:
        assignment: The segment to run: parameters, first and last step, seed.
        study: The study's name.
        run_id: The id of the study's DAG run.
        key: The study's unique key, which is also its path in the store.
        command: The training command.
        image: Image of the training container.
        agent_image: Image with this package, for the platform's containers.
        gateway_url: URL of the gateway, as the agent reaches it.
        secret: Name of the Kubernetes secret with the segment's token and the store's keys.
        resources: Resources of the training container.
        pod: The section ``pod`` of the study.
        environment: Environment variables of the training, from the study.
        code: Name of the code archive in the store; None if the image contains the code.
        packages: Arguments of ``pip install`` for the code; empty if nothing is installed.
        policy: The pod policy: the pod settings that the operator allows studies to use.
        names_image: Whether the study names the image; otherwise it is the platform's default.
        has_native_sidecars: Whether the cluster has native sidecar containers (from Kubernetes
            1.29).
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
        """The pod's name, built from study, trial and segment."""
        plain = re.sub(r"[^a-z0-9-]+", "-", self.study.lower()).strip("-")[:35].strip("-")
        return f"hpo-{plain or 'study'}-{self.assignment.trial}-{self.assignment.segment[:8]}"

    @property
    def labels(self) -> dict[str, str]:
        """The labels that name the pod's study, run, trial and segment."""
        return {
            **trial_labels(self.study, self.run_id, self.assignment.trial, key=self.key),
            SEGMENT_LABEL: self.assignment.segment,
        }


def trial_labels(study: str, run_id: str, trial: int, *, key: str) -> dict[str, str]:
    """Returns the labels that all pods of a trial have.

    Args:
        study: The study's name.
        run_id: The id of the study's DAG run.
        trial: The trial's number.
        key: The study's unique key, since several studies may have the same name and run id.
    """
    return {
        **MANAGED_BY,
        STUDY_LABEL: label_value(study),
        RUN_LABEL: label_value(run_id),
        KEY_LABEL: label_value(key),
        TRIAL_LABEL: str(trial),
    }


def label_value(text: str) -> str:
    """Converts a text to a valid value of a Kubernetes label.

    If the conversion changes the text, a hash of the text is appended, so that different texts
    have different values.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", text).strip("._-")[:63].strip("._-")
    if plain == text:
        return plain
    return f"{plain[:54].strip('._-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}".strip("-")
