"""What the wrappers read of a librdkafka configuration."""

from collections.abc import Mapping
from typing import Any

from sluicegate.model import ANONYMOUS


def settings_of(args: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration that a constructor is given: a dict, keywords with `_` for `.`, or both."""
    given = dict(args[0]) if args else {}
    return given | {name.replace("_", "."): value for name, value in options.items()}


def principal_of(settings: Mapping[str, Any]) -> str:
    """Whom a client logs in as."""
    user = settings.get("sasl.username")
    return f"User:{user}" if user else ANONYMOUS
