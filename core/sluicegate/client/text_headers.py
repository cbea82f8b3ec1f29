"""Messages of libraries whose headers are texts by name: Pulsar's properties, Danube's attributes."""

from collections.abc import Mapping
from typing import TypeAlias

from sluicegate.model import HeaderChange, Message

TextHeaders: TypeAlias = Mapping[str, str] | None


def message_of(headers: TextHeaders, key: str | None, value: bytes | None) -> Message:
    """A message as policies read it; its schema is not known in a client."""
    return Message(_encoded(headers), None if key is None else key.encode(), "", value or b"")


def changed(headers: TextHeaders, change: HeaderChange) -> dict[str, str]:
    """The headers of a message after a change."""
    return {name: content.decode() for name, content in change.apply(_encoded(headers))}


def _encoded(headers: TextHeaders) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, content.encode()) for name, content in headers.items()) if headers else ()
