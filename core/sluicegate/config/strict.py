"""The base class of all sections of the file."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A section of the file: unknown keys are refused, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, hide_input_in_errors=True)
