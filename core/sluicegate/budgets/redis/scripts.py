"""The scripts that run in the server, by the digest that the server knows them by."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Final


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script."""

    text: str
    digest: str
    """By which EVALSHA finds it."""


def _script(name: str) -> Script:
    common, own = (files(__package__).joinpath(f"{each}.lua").read_text() for each in ("common", name))
    text = f"{common}\n{own}"
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


SCRIPTS: Final[Mapping[str, Script]] = {
    name: _script(name)
    for name in (
        "since",
        "reserve",
        "hold",
        "release",
        "taken",
        "join",
        "leave",
        "members",
        "attend",
        "publish",
        "step_down",
    )
}
"""All of them, by the name of their file; `common.lua` is the beginning of each."""
