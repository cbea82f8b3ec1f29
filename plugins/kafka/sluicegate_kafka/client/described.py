"""What policies read of a message that a client's library is given."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from sluicegate.model import HeaderChange, Message
from sluicegate_kafka.codec.message_reading import schema_of

Text: TypeAlias = str | bytes | None
Headers: TypeAlias = Mapping[str, Text] | Iterable[tuple[str, Text]] | None


def message_of(headers: Headers, key: Text, value: Text) -> Message:
    """A message as policies read it."""
    read = tuple((name, _bytes(content) or b"") for name, content in pairs_of(headers))
    content = _bytes(value) or b""
    return Message(read, _bytes(key), schema_of(read, content), content)


def changed(headers: Headers, change: HeaderChange) -> list[tuple[str, Text]]:
    """The headers of a message after a change."""
    pairs: tuple[tuple[str, Any], ...] = tuple(pairs_of(headers))
    return list(change.apply(pairs))


def pairs_of(headers: Headers) -> Iterable[tuple[str, Text]]:
    """Names and values, in whichever form they are given."""
    if not headers:
        return ()
    return headers.items() if isinstance(headers, Mapping) else headers


def _bytes(text: Text) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
