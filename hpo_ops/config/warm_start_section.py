"""Where a study starts from: trials of an earlier one, and parameters to try first."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from hpo_ops.config.strict_model import Model
from hpo_ops.config.study_errors import SeveralError
from hpo_ops.core.param_fitting import fit
from hpo_ops.core.search_space import Float, Int, Parameter, Space
from hpo_ops.protocol import ParamValue

STORAGE_VARIABLE = "HPO_STORAGE_{}"
"""The gateway's variable with the address of a storage that studies name."""
STORAGE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


class WarmStart(Model):
    """A study whose completed trials the sampler knows from the start."""

    study: Annotated[str, Field(min_length=1)]
    """Name of the earlier study; with storage, its name in Optuna."""
    run: Annotated[str, Field(min_length=1)] | None = None
    """DAG run of the earlier study; its newest one if not given."""
    storage: str | None = None
    """Name of the Optuna storage that the study is in; the gateway knows its address."""

    @field_validator("storage")
    @classmethod
    def _check_storage(cls, value: str | None, info: ValidationInfo) -> str | None:
        is_entered = bool(info.context and info.context.get("entered"))
        if value is None or is_entered or STORAGE_NAME.fullmatch(value):
            return value
        found = "is an address" if "://" in value else f"is {value!r}"
        raise ValueError(
            f"{found}, but must be a name that the gateway knows: set "
            f"{STORAGE_VARIABLE.format('OLD')} to the address for the gateway, and write "
            "storage: old"
        )

    @model_validator(mode="after")
    def _check_run(self) -> Self:
        if self.run is not None and self.storage is not None:
            raise ValueError("has run and storage, but only one of them is possible")
        return self


def fit_enqueued(
    space: Space, enqueued: Sequence[dict[str, Any]]
) -> tuple[dict[str, ParamValue], ...]:
    """Sets of parameters as the space writes them.

    Raises:
        SeveralError: One of them or more are not of the space.
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
    """A number that YAML reads as text, such as 1e-4, where a number belongs."""
    if isinstance(value, str) and isinstance(parameter, Float | Int):
        with contextlib.suppress(ValueError):
            return float(value)
    return value
