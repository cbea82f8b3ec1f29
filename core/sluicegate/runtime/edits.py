"""Changes of policies as JSON, from commands and from the admin API."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sluicegate.broker import PolicyRefusedError
from sluicegate.model import LEVELS
from sluicegate.runtime.changing import LONGEST_NAME, Wanted
from sluicegate.store import Key


class EditBody(BaseModel):
    """One field to set or to unset."""

    model_config = ConfigDict(extra="forbid", strict=True)

    level: str = Field(description="broker, namespace or topic.", pattern=f"^({'|'.join(LEVELS)})$")
    name: str = Field(
        default="", description="Namespace or topic, exact or with `*`.", max_length=LONGEST_NAME
    )
    broker: str = Field(default="", description="Name of the broker's entry; empty for all.", max_length=63)
    field: str = Field(min_length=1, max_length=200, description="Policy, such as max_publish_rate.")
    value: bool | int | float | str | None = Field(
        description="In base units or with a unit, such as 500/s; null unsets the field."
    )

    def wanted(self) -> Wanted:
        """The change, not checked against file and store yet."""
        return Wanted(Key(LEVELS[self.level], self.name, self.field, self.broker), self.value)


class ChangeBody(BaseModel):
    """A change of policies."""

    model_config = ConfigDict(extra="forbid", strict=True)

    edits: list[EditBody] = Field(min_length=1, max_length=1_000)
    reason: str = Field(default="", max_length=1_000, description="Why, for the history.")

    def wanted(self) -> list[Wanted]:
        """The changes, not checked against file and store yet."""
        return [edit.wanted() for edit in self.edits]


def change_from(edits: Iterable[Mapping[str, Any]], reason: str = "") -> ChangeBody:
    """Validate a change.

    :raises PolicyRefusedError: if it is none.
    """
    try:
        return ChangeBody.model_validate({"edits": list(edits), "reason": reason})
    except ValidationError as error:
        raise PolicyRefusedError(first_problem(error)) from None


def first_problem(error: ValidationError) -> str:
    """Where the first mistake of a body is, and what it is."""
    [first, *_] = error.errors(include_url=False)
    place = ".".join(str(step) for step in first["loc"])
    return f"{place or 'the body'}: {first['msg']}"
