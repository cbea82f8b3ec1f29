"""Chunked messages of one producer: how large each of them is as a whole."""

from typing import Final

from sluicegate_pulsar.codec.metadata import MetadataHead

_MOST_OPEN: Final = 16
"""Messages that are counted at once; clients send the chunks of one after those of another."""
_REFUSED: Final = -1


class ChunkSizes:
    """Payload bytes of chunked messages that have come in part.

    What a client claims to be a message's size (`total_chunk_msg_size`) is believed only as long as no more
    than that has come.
    """

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[str, int] = {}

    def whole(self, chunk: MetadataHead, payload_size: int) -> int:
        """Bytes of the whole message of which this is the next chunk, as far as they are known.

        :param chunk: the metadata of an entry that `is_chunk`.
        :param payload_size: bytes of the entry's payload.
        """
        return max(chunk.total_chunk_size, self._sum(chunk) + payload_size)

    def passed(self, chunk: MetadataHead, payload_size: int) -> None:
        """Count a chunk that is forwarded."""
        total = self._sum(chunk) + payload_size
        if chunk.is_last_chunk:
            self._sums.pop(chunk.uuid, None)
        else:
            self._note(chunk.uuid, total)

    def refused(self, uuid: str) -> None:
        """A chunk of a message was refused, so that the message cannot be put together any more."""
        self._note(uuid, _REFUSED)

    def is_lost(self, chunk: MetadataHead) -> bool:
        """Whether another chunk of the same message was refused; a first chunk begins it anew."""
        return bool(chunk.chunk_id) and self._sums.get(chunk.uuid) == _REFUSED

    def _note(self, uuid: str, total: int) -> None:
        self._sums.pop(uuid, None)  # the one that goes on is the last to be forgotten
        if len(self._sums) >= _MOST_OPEN:
            del self._sums[next(iter(self._sums))]
        self._sums[uuid] = total

    def _sum(self, chunk: MetadataHead) -> int:
        """What came of the message before; a first chunk begins it anew, as it does for consumers."""
        return max(0, self._sums.get(chunk.uuid, 0)) if chunk.chunk_id else 0
