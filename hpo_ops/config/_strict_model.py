"""The pydantic base model of all sections of a study file."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A frozen model that rejects unknown keys; the docstring below a field documents it."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )

    noun: ClassVar[str] = "study"
    """Word for the configured object in messages such as "… is not a key that a study has"."""
