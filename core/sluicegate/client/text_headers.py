"""Messages of libraries whose headers are texts by name: Pulsar's properties, Danube's attributes."""

from collections.abc import Mapping
from typing import TypeAlias

from sluicegate.model import HeaderChange, Message

TextHeaders: TypeAlias = Mapping[str, str] | None


def message_of(headers: TextHeaders, key: str | None, value: bytes | None) -> Message:
    """A message as policies read it; its schema is not known in a client.

    :raises TypeError: if its headers are malformed.
    """
    return Message(_encoded(headers), None if key is None else key.encode(), "", value or b"")


def changed(headers: TextHeaders, change: HeaderChange) -> dict[str, str]:
    """The headers of a message after a change."""
    return {name: content.decode() for name, content in change.apply(_encoded(headers))}


def _encoded(headers: TextHeaders) -> tuple[tuple[str, bytes], ...]:
    if not headers:
        return ()
    try:
        return tuple((_text(name), _text(content).encode()) for name, content in headers.items())
    except (AttributeError, TypeError) as error:
        raise TypeError(
            f"headers are texts by name, such as {{'trace': '1'}}, not {headers!r:.100}"
        ) from error


def _text(part: str | bytes) -> str:
    """The libraries take bytes of UTF-8 as well."""
    if isinstance(part, bytes):
        return part.decode()
    return part + ""
