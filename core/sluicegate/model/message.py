"""What a check may read of one message, and what a decision may change of it."""

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias


class Part(StrEnum):
    """A part of a message that a check reads. What no check reads is not parsed."""

    HEADERS = "headers"
    """Headers of Kafka, properties of Pulsar, attributes of Danube."""
    KEY = "key"
    SCHEMA = "schema"
    """Which schema the value is written by."""
    VALUE = "value"


Headers: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names and values in their order. Kafka allows a name more than once."""


class Message(NamedTuple):
    """One message as checks see it: parts that no check of its topic reads keep their defaults."""

    headers: Headers = ()
    key: bytes | None = None
    schema: str = ""
    """Id or version of the schema, as text; empty if the message names none."""
    value: bytes = b""


message_of: Final = partial(tuple.__new__, Message)
"""`((headers, key, schema, value))` -> the message, in two thirds of the time of `Message(...)`."""


class HeaderChange(NamedTuple):
    """What a rewrite changes in the headers of every message of an operation."""

    set: Mapping[str, bytes] = MappingProxyType({})
    """Values by name; they take the place of all headers of that name."""
    remove: frozenset[str] = frozenset()
    """Names of headers to remove."""

    def joined(self, later: "HeaderChange") -> "HeaderChange":
        """Both changes, where the later one has the last word."""
        kept = {name: value for name, value in self.set.items() if name not in later.remove}
        return HeaderChange({**kept, **later.set}, (self.remove - later.set.keys()) | later.remove)

    def apply(self, headers: Headers) -> Headers:
        """The headers of one message after the change."""
        kept = tuple(
            header for header in headers if header[0] not in self.remove and header[0] not in self.set
        )
        return (*kept, *self.set.items())


UNCHANGED: Final = HeaderChange()
