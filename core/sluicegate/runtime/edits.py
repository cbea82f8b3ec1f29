"""Changes of policies as JSON, from commands and from the admin API."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sluicegate.broker import PolicyRefusedError
from sluicegate.model import LEVELS, Level
from sluicegate.runtime.changing import LONGEST_NAME, Wanted
from sluicegate.runtime.promoting import Promotion
from sluicegate.store import Key

Body = TypeVar("Body", bound=BaseModel)


class _OfLevel(BaseModel):
    """What concerns one level, and one name of it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    level: str = Field(description="broker, namespace or topic.", pattern=f"^({'|'.join(LEVELS)})$")
    name: str = Field(
        default="", description="Namespace or topic, exact or with `*`.", max_length=LONGEST_NAME
    )
    broker: str = Field(default="", description="Name of the broker's entry; empty for all.", max_length=63)


class EditBody(_OfLevel):
    """One field to set or to unset."""

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


class PromoteBody(_OfLevel):
    """A policy that is to be promoted; level, name and broker are those of its mode, as set."""

    policy: str = Field(min_length=1, max_length=200, description="Policy, such as max_publish_rate.")
    to: str = Field(default="", max_length=1_000, description="Mode; the next step if empty.")
    force: bool = Field(default=False, description="Ask neither for time nor for the budget.")
    reason: str = Field(default="", max_length=1_000, description="Why, for the history.")

    def promotion(self) -> Promotion:
        """What is to be promoted, not checked against file and store yet."""
        return Promotion(LEVELS[self.level], self.name, self.broker, self.policy, self.to, self.force)


def edit(level: str, name: str, broker: str, field: str, value: object) -> dict[str, Any]:
    """A change of one field, for `change_from`."""
    return {"level": level, "name": name, "broker": broker, "field": field, "value": value}


def set_by(level: str, name: str, broker: str, word: str) -> dict[str, Any]:
    """The change of a word such as `max_publish_rate=500/s`.

    :raises ValueError: if it is none.
    """
    field, equals, value = word.partition("=")
    if not equals or not field or not value:
        raise ValueError(f"{word!r} is not POLICY=VALUE, such as max_publish_rate=500/s")
    return edit(level, name, broker, field, _value(value))


def set_by_text(text: str) -> list[dict[str, Any]]:
    """The changes of the words of `policies set`, such as `topic orders.eu max_publish_rate=500/s`.

    :raises ValueError: if they are none.
    """
    level, *words = shlex.split(text) or [""]
    name = words.pop(0) if words and level != Level.BROKER.label else ""
    if level not in LEVELS or not words:
        remedy = "write LEVEL [NAME] POLICY=VALUE, such as 'topic orders.eu max_publish_rate=500/s'"
        raise ValueError(f"{text!r} changes nothing: {remedy}")
    return [set_by(level, name, "", word) for word in words]


def _value(text: str) -> object:
    """A value of the command line: true and false are switches, as in YAML."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def change_from(edits: Iterable[Mapping[str, Any]], reason: str = "") -> ChangeBody:
    """Validate a change.

    :raises PolicyRefusedError: if it is none.
    """
    return validated(ChangeBody, {"edits": list(edits), "reason": reason})


def validated(model: type[Body], values: Mapping[str, Any]) -> Body:
    """Validate a body that no request has brought.

    :raises PolicyRefusedError: with its first mistake.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise PolicyRefusedError(first_problem(error)) from None


def first_problem(error: ValidationError) -> str:
    """Where the first mistake of a body is, and what it is."""
    [first, *_] = error.errors(include_url=False)
    location = ".".join(str(step) for step in first["loc"])
    return f"{location or 'the body'}: {first['msg']}"
