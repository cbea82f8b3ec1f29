"""A local file with the last known state of a remote store."""

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluicegate.host.private_files import make_folder
from sluicegate.model import LEVELS, PolicyLayer, Setting, Source
from sluicegate.store.policy_store import CEILING, Key, flattened, grouped

NAME = "store-copy.json"
"""Name of the file in the state directory."""
_FORMAT = 1
_MOST_BYTES = 64 << 20
_ADDRESS = re.compile(r"(?P<scheme>[^:]+://)(?:[^/?]*@)?(?P<address>[^?]*)")


@dataclass(frozen=True, slots=True)
class StoreState:
    """The contents of a store at one time."""

    version: int
    layers: tuple[PolicyLayer, ...]
    facts: Mapping[str, str]
    at_s: float
    """When it was confirmed to be up to date, in Unix time."""


class LocalCopy:
    """A file that is replaced atomically and that only its owner can read.

    :param path: path of the file.
    :param url: URL of the store. The file identifies the store without its login and options.
    """

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        match = _ADDRESS.match(url)
        self._address = match["scheme"] + match["address"] if match is not None else ""

    def write(self, state: StoreState) -> None:
        """Replace the copy atomically, even if this process or the host crashes.

        :raises OSError: if it cannot be written; the previous copy stays.
        """
        make_folder(self.path.parent)
        content = {
            "format": _FORMAT,
            "store": self._address,
            "at": state.at_s,
            "version": state.version,
            "settings": list(_settings(state.layers)),
            "facts": dict(state.facts),
        }
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)  # mode 0600
        try:
            with open(handle, "w") as file:
                json.dump(content, file)
                file.flush()
                # Before it is renamed: after a crash of the host, the name could otherwise stand for an empty
                # file.
                os.fsync(file.fileno())
            os.replace(name, self.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def read(self) -> StoreState | None:
        """Read the copy; None if there is none.

        :raises OSError: if the file cannot be read.
        :raises ValueError: if it is damaged, or belongs to another store.
        """
        try:
            with open(self.path, "rb") as file:
                text = file.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            return None
        if len(text) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES} bytes")
        try:
            saved = json.loads(text)
            if saved["format"] != _FORMAT:
                raise ValueError(f"its format is {saved['format']!r}, expected {_FORMAT}")
            address, version, at_s = str(saved["store"]), int(saved["version"]), float(saved["at"])
            facts = {str(key): str(value) for key, value in saved["facts"].items()}
            layers = _layers(saved["settings"])
        except (KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise ValueError(f"it is damaged ({error!r})") from error
        if address != self._address:
            raise ValueError(f"it belongs to another store, {address!r}")
        return StoreState(version, layers, facts, at_s)


def _settings(layers: Sequence[PolicyLayer]) -> Iterator[list[object]]:
    """Flatten layers into rows: level, name, broker, whether it is a ceiling, field, value, location."""
    for (level, name, field, broker, _), setting in flattened(layers):
        row = [level.label, name, broker, field.startswith(CEILING), field.removeprefix(CEILING)]
        yield [*row, setting.value, setting.location]


def _layers(settings: Sequence[Sequence[Any]]) -> tuple[PolicyLayer, ...]:
    """The inverse of `_settings`.

    :raises ValueError: if a row is malformed.
    """
    return grouped(_setting(*row) for row in settings)


def _setting(
    label: str,
    name: object,
    broker: object,
    is_ceiling: object,
    field: object,
    value: object,
    location: object,
) -> tuple[Key, Setting]:
    if not isinstance(value, int | float | str) or not isinstance(field, str):
        raise ValueError(f"it is damaged ({field!r} is not a setting)")
    field = f"{CEILING}{field}" if is_ceiling else field
    key = Key(LEVELS[label], str(name), field, str(broker))
    return key, Setting(value, Source.STORE, str(location))
