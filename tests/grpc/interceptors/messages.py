"""Publishes with headers, and a message class that no protobuf library made."""

from dataclasses import dataclass
from typing import Any

from tests.grpc.lab import TOPIC, message


def with_headers(*names: str, producer: int = 0) -> bytes:
    """A publish by topic, or by the id of a producer."""
    to = message({1: producer}) if producer else message({1: TOPIC})
    return to + b"".join(message({7: message({1: name, 2: b"1"})}) for name in names) + message({2: b"x"})


@dataclass
class Decoded:
    """A message as generated code has it: made of bytes, and encoded to them."""

    data: bytes

    @classmethod
    def FromString(cls, data: bytes) -> "Decoded":  # noqa: N802
        return cls(data)

    def SerializeToString(self) -> bytes:  # noqa: N802
        return self.data

    def __contains__(self, what: bytes) -> bool:
        return what in self.data


@dataclass
class Opaque:
    """A message that cannot be encoded again."""

    data: bytes

    def __contains__(self, what: bytes) -> bool:
        return what in self.data


def bytes_of(sent: Any) -> bytes:
    """The encoded message that a handler or a server got."""
    data: bytes = sent if isinstance(sent, bytes) else sent.data
    return data
