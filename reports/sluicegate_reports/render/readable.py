"""Makes results safe to show: in names that others chose, invisible characters become escape sequences."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from sluicegate.model import visible
from sluicegate_reports.model.results import Point, RunFacts

_Shown = TypeVar("_Shown")
_LINES = "\n\t"


def readable(shown: _Shown) -> _Shown:
    """The same value with every text in it printable; the texts of files and commands keep their lines."""
    return cast("_Shown", _readable(shown))


def _readable(value: Any, keep: str = "") -> Any:
    if type(value) is str:
        return visible(value, keep)
    if isinstance(value, tuple):
        return tuple(_readable(each, keep) for each in value)
    if isinstance(value, Mapping):
        return {_readable(name): _readable(each) for name, each in value.items()}
    if is_dataclass(value) and not isinstance(value, Point | type):
        lines = {"scenario", "policies", "commands"} if isinstance(value, RunFacts) else set()
        readable_values = {
            each.name: _readable(getattr(value, each.name), _LINES if each.name in lines else "")
            for each in fields(value)
        }
        return replace(value, **readable_values)
    return value
