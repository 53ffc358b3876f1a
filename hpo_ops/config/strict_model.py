"""What all parts of a study file have in common."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Strict about keys, frozen, with the documentation of a field beside it."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )

    noun: ClassVar[str] = "study"
    """What its keys are keys of, for messages."""
