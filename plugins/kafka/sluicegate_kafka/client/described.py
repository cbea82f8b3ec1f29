"""What policies read of a message that a client's library is given."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from sluicegate.model import HeaderChange, Message
from sluicegate_kafka.codec.message_reading import schema_of

Text: TypeAlias = str | bytes | None
Headers: TypeAlias = Mapping[str, Text] | Iterable[tuple[str, Text]] | None


def message_of(headers: Headers, key: Text, value: Text) -> Message:
    """A message as policies read it; `lengths_of` has found its headers well formed."""
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


def length_of(part: Text) -> int:
    """Bytes of a key, a value or a header."""
    if part is None:
        return 0
    return len(part.encode() if isinstance(part, str) else part)


def lengths_of(headers: Headers) -> int:
    """Bytes of a message's headers.

    :raises TypeError: if they are not what policies could read; the libraries send some of that as they like.
    """
    if not headers:  # as of most messages
        return 0
    try:
        return sum(len(name.encode()) + length_of(content) for name, content in pairs_of(headers))
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(error, UnicodeError):
            raise
        expected = f"headers are pairs of a text and bytes, such as [('trace', b'1')], not {headers!r:.100}"
        raise TypeError(expected) from error


def _bytes(text: Text) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
