"""Makes foreign names, such as those of topics, safe to show: invisible characters are spelt out."""

import unicodedata
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from sluicegate_reports.results import Point, RunFacts

_Shown = TypeVar("_Shown")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control and format characters: escapes, newlines, changes of direction."""
_LINES = "\n\t"


def printable(text: str, keep: str = "") -> str:
    """A text in which control and format characters are spelt as in Python, such as newlines and escapes.

    :param keep: those that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        sign.encode("unicode_escape").decode("ascii")
        if sign not in keep and unicodedata.category(sign) in _HIDDEN
        else sign
        for sign in text
    )


def readable(shown: _Shown) -> _Shown:
    """The same value with every text in it printable; the texts of files and commands keep their lines."""
    return cast("_Shown", _readable(shown))


def _readable(value: Any, keep: str = "") -> Any:
    if type(value) is str:
        return printable(value, keep)
    if isinstance(value, tuple):
        return tuple(_readable(each, keep) for each in value)
    if isinstance(value, Mapping):
        return {_readable(name): _readable(each) for name, each in value.items()}
    if is_dataclass(value) and not isinstance(value, Point | type):
        lines = {"scenario", "policies", "commands"} if isinstance(value, RunFacts) else set()
        told = {
            each.name: _readable(getattr(value, each.name), _LINES if each.name in lines else "")
            for each in fields(value)
        }
        return replace(value, **told)
    return value
