"""The base class of all sections of the file."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from sluicegate.config.units import refuse


class Strict(BaseModel):
    """A section of the file: unknown keys are refused, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, hide_input_in_errors=True)


def refuse_keys_of_others(section: Strict, source: str, keys: Mapping[str, Sequence[str]]) -> None:
    """Refuse keys of a section that only another source reads than the one it names.

    :param keys: by source.
    :raises ValueError: for the first one.
    """
    for other, names in keys.items():
        extra = [name for name in names if getattr(section, name)]
        if other != source and extra:
            remedy = f"remove it, or write source: {other}"
            raise refuse(f"{extra[0]!r} is for source {other}, not for {source}", remedy)
