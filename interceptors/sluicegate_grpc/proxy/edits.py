"""Metadata that the gateway adds to requests, or takes from them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

_KEY = re.compile(r"[0-9a-z_.-]{1,256}")
_VALUE = re.compile(r"[ -~]{0,4096}")
_OF_THE_PROTOCOL = frozenset({"host", "te", "content-type", "content-length", "connection", "upgrade"})


@dataclass(frozen=True, slots=True)
class Edits:
    """Changes to every request before it is forwarded. Policies see it as the client sent it."""

    put: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Values by key; they take the place of what the client says under these keys."""
    taken: frozenset[str] = frozenset()
    """Keys that the broker does not get."""

    def __bool__(self) -> bool:
        return bool(self.put or self.taken)

    def apply(self, headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """A request's headers as the broker gets them."""
        kept = [(name, value) for name, value in headers if name not in self.taken and name not in self.put]
        return [*kept, *self.put.items()]


def why_not(key: str, value: str = "") -> str:
    """Why metadata cannot be edited like this; empty if it can.

    :param key: as gRPC allows it (gRPC over HTTP/2, Custom-Metadata), and not one of the protocol's own.
    :param value: what it is to be.
    """
    if not _KEY.fullmatch(key):
        return "expected a key of lower-case letters, digits, '-', '_' and '.'"
    if key in _OF_THE_PROTOCOL or key.startswith("grpc-"):
        return "it belongs to the protocol"
    if key.endswith("-bin"):
        return "binary metadata cannot be written here"
    return "" if _VALUE.fullmatch(value) else "expected printable ASCII, at most 4096 characters"
