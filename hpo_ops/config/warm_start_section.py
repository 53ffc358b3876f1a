"""The sections ``warm_start`` and ``enqueue`` of a study file."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from hpo_ops.config._strict_model import Model
from hpo_ops.config.study_errors import SeveralError
from hpo_ops.core.param_fitting import fit
from hpo_ops.core.search_space import Float, Int, Parameter, Space
from hpo_ops.protocol import ParamValue

STORAGE_VARIABLE = "HPO_STORAGE_{}"
"""Environment variable of the gateway with the URL of an Optuna storage.

The placeholder is the name by which studies refer to the storage.
"""
STORAGE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


class WarmStart(Model):
    """An earlier study whose completed trials the sampler knows from the start."""

    study: Annotated[str, Field(min_length=1)]
    """Name of the earlier study; with storage, its name in Optuna."""
    run: Annotated[str, Field(min_length=1)] | None = None
    """DAG run of the earlier study; by default the newest."""
    storage: str | None = None
    """Name of the Optuna storage that contains the study; the operator sets its URL."""

    @field_validator("storage")
    @classmethod
    def _check_storage(cls, value: str | None, info: ValidationInfo) -> str | None:
        is_entered = bool(info.context and info.context.get("entered"))
        if value is None or is_entered or STORAGE_NAME.fullmatch(value):
            return value
        found = "is a URL" if "://" in value else f"is {value!r}"
        raise ValueError(
            f"{found}, but must be a name that the gateway knows: the operator sets "
            f"{STORAGE_VARIABLE.format('OLD')} of the gateway to the URL, and the study has "
            "storage: old"
        )

    @model_validator(mode="after")
    def _check_run(self) -> Self:
        if self.run is not None and self.storage is not None:
            raise ValueError("has run and storage, but only one of them is allowed")
        return self


def fit_enqueued(
    space: Space, enqueued: Sequence[dict[str, Any]]
) -> tuple[dict[str, ParamValue], ...]:
    """Converts enqueued sets of parameters to values of the search space.

    Raises:
        SeveralError: Values are outside the space; the error has one sentence for each problem.
    """
    fitted, problems = [], []
    for index, params in enumerate(enqueued):
        read = {name: _read(space.get(name), value) for name, value in params.items()}
        values, wrong = fit(space, read, is_complete=False)
        fitted.append(values)
        problems += [f"enqueue.{index}.{problem}" for problem in wrong]
    if problems:
        raise SeveralError(problems)
    return tuple(fitted)


def _read(parameter: Parameter | None, value: Any) -> Any:
    """Converts text such as ``1e-4``, which YAML does not read as a number, to a number.

    Returns other values, and the values of parameters that are not numeric, unchanged.
    """
    if isinstance(value, str) and isinstance(parameter, Float | Int):
        with contextlib.suppress(ValueError):
            return float(value)
    return value
