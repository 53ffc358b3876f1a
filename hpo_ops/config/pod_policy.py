"""The pod policy: which Kubernetes pod settings studies may use.

The policy is a YAML file that the operator of the cluster writes. Names in it are shell patterns:
``*`` matches any text. If there is no file, the defaults of :class:`PodPolicy` apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, ClassVar

import yaml
from pydantic import AfterValidator, Field, ValidationError, field_validator

from hpo_ops.config._strict_model import Model
from hpo_ops.config.study_errors import explain, shown

POLICY_VARIABLE = "HPO_POD_POLICY"
"""Environment variable with the path of the policy file."""
VOLUME_KINDS = (
    "configMap",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
"""Kinds of volumes that give no access to the node or to objects outside of the namespace."""
PLATFORM_FIELDS = (
    "automountServiceAccountToken",
    "ephemeralContainers",
    "hostPID",
    "restartPolicy",
    "serviceAccount",
    "serviceAccountName",
    "shareProcessNamespace",
)
"""Fields of a pod's spec that no policy can allow. Each of them would break the platform's
containers, or let the training read their environment, which contains tokens and keys."""

Patterns = tuple[Annotated[str, Field(min_length=1)], ...]


def _check_absolute(path: str) -> str:
    if not path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"is {shown(path)}, but must be an absolute path without '..'")
    return path.rstrip("/") or "/"


class PodPolicy(Model):
    """Pod settings that studies may use; settings in the operator's pod templates are exempt."""

    noun: ClassVar[str] = "pod policy"

    namespaces: Patterns = ()
    """Namespaces for ``pod.namespace``, besides that of the Airflow connection."""
    service_accounts: Patterns = ()
    """Service accounts for ``pod.service_account``."""
    service_account_token: bool = False
    """Whether a pod with a service account gets its token for the Kubernetes API mounted."""
    priority_classes: Patterns = ("*",)
    """Priority classes. Those that start with ``system-`` are refused unless named exactly."""
    secrets: Patterns = ("*",)
    """Secrets for volumes, variables and pulling images. ``hpo-*`` are refused in any case."""
    config_maps: Patterns = ("*",)
    """Config maps for volumes and variables."""
    claims: Patterns = ("*",)
    """Persistent volume claims."""
    volumes: tuple[str, ...] = VOLUME_KINDS
    """Kinds of volumes, as Kubernetes names them. For hostPath see ``host_paths``."""
    host_paths: tuple[Annotated[str, AfterValidator(_check_absolute)], ...] = ()
    """Folders of the node that hostPath volumes may mount, including their subfolders."""
    images: Patterns = ("*",)
    """Images, as a study writes them: ``registry.example.org/team/*``."""
    templates: Patterns = ("*",)
    """Pod templates, without ``.yaml``: those of pools (``trial_gpu``) and ``pod.template``."""
    node_labels: Patterns = ("*",)
    """Node labels that studies may select by, in addition to those of the template."""
    tolerations: Patterns = ("*",)
    """Taints that studies may tolerate. Those of the control plane are refused unless named."""
    capabilities: tuple[str, ...] = ()
    """Linux capabilities that containers of a study may add, such as ``IPC_LOCK``."""
    security_context: tuple[str, ...] = ()
    """Further fields of ``securityContext`` that studies may set, such as ``privileged``."""
    spec_fields: tuple[str, ...] = ()
    """Further fields of a pod's spec that studies may set, such as ``hostNetwork``."""
    root: bool = False
    """Whether containers of a study may run as root."""

    @field_validator("spec_fields")
    @classmethod
    def _check_fields(cls, fields: tuple[str, ...]) -> tuple[str, ...]:
        if kept := sorted(set(fields) & {*PLATFORM_FIELDS, "containers", "initContainers"}):
            raise ValueError(
                f"has {', '.join(kept)}, which studies may never set; set it in the template of a "
                "pool instead"
            )
        return fields


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Returns whether a name matches at least one of the shell patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def load_pod_policy(path: Path) -> PodPolicy:
    """Reads and checks a pod policy file; an empty file results in the default policy.

    Raises:
        ValueError: The file cannot be read or is invalid; the message lists every problem.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"the pod policy {path} cannot be read: {error}") from error
    if not isinstance(data, dict | None):
        raise ValueError(f"the pod policy {path} is {shown(data)}, but must be a mapping")
    try:
        return PodPolicy.model_validate(data or {})
    except ValidationError as error:
        problems = explain(error, PodPolicy)
        raise ValueError("\n".join(f"{path}: {problem}" for problem in problems)) from error
