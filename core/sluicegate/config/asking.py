"""Says for which policy fields a function has an answer, so that it need not be called without them.

Only for functions of built-in policies whose answer is empty without these fields, whatever else is set.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Asked = TypeVar("Asked", bound=Callable[..., Any])

_FIELDS = "sluicegate_fields"


def only_with(fields: Iterable[str]) -> Callable[[Asked], Asked]:
    """Mark a function that is to be called only where one of these fields is set."""

    def mark(function: Asked) -> Asked:
        setattr(function, _FIELDS, frozenset(fields))
        return function

    return mark


def fields_of(function: Callable[..., Any]) -> frozenset[str] | None:
    """The fields of a marked function; None for one that is always called."""
    fields: frozenset[str] | None = getattr(function, _FIELDS, None)
    return fields
