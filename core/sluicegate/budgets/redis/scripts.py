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
    text = files(__package__).joinpath(f"{name}.lua").read_text()
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


SCRIPTS: Final[Mapping[str, Script]] = {
    name: _script(name) for name in ("since", "reserve", "hold", "release")
}
"""All of them, by the name of their file."""
