"""Lists of names in a policy, kept as one text, so that levels, stores and logs need no other type."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from sluicegate.config.secrets import shown_value
from sluicegate.config.units import refuse
from sluicegate.model import Glob

_SEPARATOR = ","
_MOST = 100
_LONGEST = 256
_MOST_KNOWN = 1_000
"""Names that were compared with patterns, and whose answers are remembered."""


def split_names(text: str) -> tuple[str, ...]:
    """The names of a list in its stored form."""
    return tuple(filter(None, map(str.strip, text.split(_SEPARATOR))))


def name_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Make a function that says whether a name matches one of the patterns; it remembers its answers."""
    globs = [Glob(pattern) for pattern in patterns]
    known: dict[str, bool] = {}

    def is_named(name: str) -> bool:
        answer = known.get(name)
        if answer is None:
            if len(known) >= _MOST_KNOWN:  # clients choose the names
                known.clear()
            answer = known[name] = any(glob.matches(name) for glob in globs)
        return answer

    return is_named


def _joined(value: Any) -> str:
    if isinstance(value, str):
        names: tuple[object, ...] = split_names(value)
    elif isinstance(value, list | tuple):
        names = tuple(value)
    else:
        raise refuse(f"{shown_value(value)} is no list of names", "write names as [a, b] or 'a, b'")
    if len(names) > _MOST:
        raise refuse(f"a list of {len(names)} names", f"write at most {_MOST}, or a pattern with '*'")
    for name in names:
        text = str(name).strip() if isinstance(name, str | int) and not isinstance(name, bool) else ""
        if not text or _SEPARATOR in text or len(text) > _LONGEST:
            raise refuse(
                f"{shown_value(name)} is no name", f"write 1 to {_LONGEST} characters without a comma"
            )
    return f"{_SEPARATOR} ".join(str(name).strip() for name in names)


NameList: TypeAlias = Annotated[
    str,
    BeforeValidator(_joined),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": ["string", "integer"]}}]}
    ),
]
"""Names, as a list or separated by commas; empty for none."""
