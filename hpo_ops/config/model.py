"""What all parts of a study file have in common."""

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
