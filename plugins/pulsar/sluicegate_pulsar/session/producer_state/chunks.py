"""Chunked messages: the size of each whole message, and which of them were refused."""

import hashlib
from typing import Final, TypeAlias

from sluicegate_pulsar.codec.metadata import MetadataHead

_MOST_OPEN: Final = 16
"""Messages that are counted at once; clients send the chunks of one after those of another."""
_REFUSED: Final = -1
_LONGEST_UUID: Final = 256
_MOST_REFUSED: Final = 1_000
_REMEMBERED_NS: Final = 300_000_000_000
"""A refusal is remembered for five minutes, as clients reconnect within seconds."""

Key: TypeAlias = tuple[str, str, str]
"""Topic, producer name and what the chunks of the message have in common (`key_of`)."""


def key_of(uuid: str) -> str:
    """The bounded key of a message: clients may choose a `uuid` of any length."""
    return uuid if len(uuid) <= _LONGEST_UUID else hashlib.sha256(uuid.encode()).hexdigest()


class ChunkSizes:
    """Payload bytes of incomplete chunked messages.

    The size that a client claims (`total_chunk_msg_size`) counts only until more bytes have arrived.
    """

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[str, int] = {}

    def whole(self, chunk: MetadataHead, payload_size: int) -> int:
        """Bytes of the whole message that this chunk continues, as far as known.

        :param chunk: the metadata of an entry that `is_chunk`.
        :param payload_size: bytes of the entry's payload.
        """
        return max(chunk.total_chunk_size, self._sum(chunk) + payload_size)

    def passed(self, chunk: MetadataHead, payload_size: int) -> None:
        """Count a chunk that is forwarded."""
        total = self._sum(chunk) + payload_size
        if chunk.is_last_chunk:
            self._sums.pop(key_of(chunk.uuid), None)
        else:
            self._note(key_of(chunk.uuid), total)

    def refused(self, uuid: str) -> None:
        """A chunk of a message was refused, so that the message can never be complete."""
        self._note(key_of(uuid), _REFUSED)

    def is_lost(self, chunk: MetadataHead) -> bool:
        """Whether another chunk of the same message was refused; a first chunk starts it again."""
        return bool(chunk.chunk_id) and self._sums.get(key_of(chunk.uuid)) == _REFUSED

    def _note(self, key: str, total: int) -> None:
        self._sums.pop(key, None)  # the most recent one is the last to be evicted
        if len(self._sums) >= _MOST_OPEN:
            del self._sums[next(iter(self._sums))]
        self._sums[key] = total

    def _sum(self, chunk: MetadataHead) -> int:
        """Bytes received of the message so far; a first chunk starts it again, as it does for consumers."""
        return max(0, self._sums.get(key_of(chunk.uuid), 0)) if chunk.chunk_id else 0


class RefusedMessages:
    """Chunked messages of which a chunk was refused, of all producers of a front.

    A client that reopens its producer resends what has no receipt. Of such a message that may be only the
    rest, which would be stored and acknowledged without its start.
    """

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[Key, tuple[str, int]] = {}
        """Text of the refusal, and until when it holds."""

    def note(self, key: Key, text: str, now_ns: int) -> None:
        """A chunk of a message was refused."""
        self._texts.pop(key, None)
        if len(self._texts) >= _MOST_REFUSED:
            del self._texts[next(iter(self._texts))]
        self._texts[key] = text, now_ns + _REMEMBERED_NS

    def begins(self, key: Key) -> None:
        """A first chunk has arrived: the message starts again."""
        self._texts.pop(key, None)

    def text(self, key: Key, now_ns: int) -> str:
        """Why another chunk of the message was refused; empty if none was."""
        text, until_ns = self._texts.get(key, ("", 0))
        return text if now_ns < until_ns else ""
