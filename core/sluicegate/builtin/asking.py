"""Says which fields a built-in policy answers for, so that topics without them need not ask it.

Only for hooks whose answer is empty without these fields, whatever else holds for the topic or its broker.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Hook = TypeVar("Hook", bound=Callable[..., Any])

_FIELDS = "sluicegate_fields"


def only_with(fields: Iterable[str]) -> Callable[[Hook], Hook]:
    """Mark a build hook: it is called only for topics that have one of these fields."""

    def mark(hook: Hook) -> Hook:
        setattr(hook, _FIELDS, frozenset(fields))
        return hook

    return mark


def fields_of(hook: Callable[..., Any]) -> frozenset[str]:
    """The fields of a marked hook; empty for one that is always called."""
    fields: frozenset[str] = getattr(hook, _FIELDS, frozenset())
    return fields
