"""The sections ``resources`` and ``pod`` of a study file."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from hpo_ops.config._sections import NotAFlag
from hpo_ops.config._strict_model import Model
from hpo_ops.config.durations import Duration
from hpo_ops.config.study_errors import shown

_SUFFIXES = {
    "": Decimal(1), "m": Decimal("0.001"),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
}  # fmt: skip
_QUANTITY = r"^\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"
POOLS = ("cpu", "gpu", "gpu-shared", "spot")
"""Names of the pools that have a pod template in ``k8s_pod_templates/``."""


WHOLE_GPUS = ("gpu", "spot")
"""Names of the pools whose GPUs are not shared by several trials."""


def amount(quantity: str) -> Decimal:
    """Converts a Kubernetes quantity such as ``500m`` or ``16Gi`` to a number."""
    found = re.fullmatch(r"([\d.]+)([a-zA-Z]*)", quantity)
    if found is None:
        raise ValueError(f"{quantity!r} is not a quantity")
    return Decimal(found[1]) * _SUFFIXES[found[2]]


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _check_quantity(value: str) -> str:
    if not re.fullmatch(_QUANTITY, value) or not amount(value):
        raise ValueError(f"is {shown(value)}, but must be a quantity: 4, 500m, 16Gi")
    return value


Quantity = Annotated[
    str,
    BeforeValidator(_as_text),
    AfterValidator(_check_quantity),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": _QUANTITY},
            ]
        }
    ),
]


_HIGHEST_USER = 2**31 - 1


def _check_user(value: object) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value == "image" or (is_number and 0 <= value <= _HIGHEST_USER):  # type: ignore[operator]
        return value
    raise ValueError(f"is {shown(value)}, but must be a user id (a number), or image")


User = Annotated[
    int | Literal["image"],
    BeforeValidator(_check_user),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": _HIGHEST_USER},
                {"const": "image", "type": "string"},
            ]
        }
    ),
]


class Resources(Model):
    """Resources of a running trial."""

    gpu: Annotated[float, Field(ge=0, le=1024), NotAFlag] = 0.0
    """GPUs: an integer, or a fraction of one, such as 0.25, in a pool of shared GPUs."""
    cpu: Quantity = "1"
    """CPU cores that are reserved for the trial."""
    memory: Quantity = "2Gi"
    """Memory limit of the trial."""
    storage: Quantity | None = None
    """Limit of disk space on the node for checkpoints and scratch files."""
    pool: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")] | None = None
    """Pool of nodes to run on; by default gpu, gpu-shared or cpu, depending on gpu."""
    memory_on_oom: tuple[Quantity, ...] = ()
    """Memory limits of the next tries of a trial that ran out of memory."""

    @model_validator(mode="after")
    def _check(self) -> Resources:
        if self.gpu > 1 and self.gpu % 1:
            raise ValueError(f"gpu is {self.gpu:g}, but must be an integer, or less than 1")
        steps = [self.memory, *self.memory_on_oom]
        if sorted(steps, key=amount) != steps:
            raise ValueError("memory_on_oom must grow: each value larger than the one before")
        return self

    @property
    def pool_name(self) -> str:
        """Name of the pool from which the trial leases its resources."""
        if self.pool is not None:
            return self.pool
        if not self.gpu:
            return "cpu"
        return "gpu" if self.gpu >= 1 else "gpu-shared"

    def scaled(self, units: float) -> Resources:
        """Returns the resources of a trial with the given number of units.

        The section ``resources`` describes one unit. A trial with a fraction of a unit still gets
        the unit's full memory.
        """
        if units == 1:
            return self
        memory = amount(self.memory) * Decimal(max(units, 1.0))
        return self.model_copy(
            update={
                "gpu": self.gpu * units,
                "cpu": f"{max(round(amount(self.cpu) * 1000 * Decimal(units)), 1)}m",
                "memory": str(int(memory)),
            }
        )

    @property
    def lease(self) -> float:
        """The amount that a trial leases from its pool for each unit: its GPUs, or 1 if none."""
        return self.gpu or 1.0


class Pod(Model):
    """Settings of a trial's pod."""

    template: Annotated[str, Field(pattern=r"^[\w-]+$")] | None = None
    """Pod template: a file in k8s_pod_templates/, without .yaml; by default the pool's."""
    namespace: str | None = None
    """Namespace; by default that of the Airflow connection."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels that the node must have."""
    tolerations: tuple[dict[str, Any], ...] = ()
    """Tolerations of node taints."""
    priority_class: str | None = None
    """Priority class, which decides which pods are preempted."""
    service_account: str | None = None
    """Identity in the cluster, such as one with an IAM role; the pod policy must list it."""
    image_pull_secrets: tuple[str, ...] = ()
    """Secrets of the namespace with which the image can be pulled."""
    run_as_user: User = 1000
    """User id of the training; "image" keeps the image's own user, which must be a number."""
    read_only_root: bool = False
    """Mount the image read-only: the training can write to /hpo and /tmp only."""
    spec: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the pod's spec, if the operator's pod policy allows them; merged last,
    lists by name."""
    schedule_timeout: Duration = 600.0
    """How long a pod may wait for a node and for its image."""
    on_demand_after: Annotated[int, Field(ge=1)] = 2
    """On spot nodes: number of preemptions after which a trial resumes in on_demand_pool."""
    on_demand_pool: str | None = None
    """Pool for trials that were preempted too often on spot nodes; by default the pool that a
    study without resources.pool has."""
