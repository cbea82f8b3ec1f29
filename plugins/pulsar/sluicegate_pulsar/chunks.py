"""Chunked messages of one producer: how large each of them is as a whole."""

from typing import Final

from sluicegate_pulsar.codec.metadata import MetadataHead

_MOST_OPEN: Final = 16
"""Messages that are counted at once; clients send the chunks of one after those of another."""


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
        self._sums.pop(chunk.uuid, None)  # the one that goes on is the last to be forgotten
        if chunk.is_last_chunk:
            return
        if len(self._sums) >= _MOST_OPEN:
            del self._sums[next(iter(self._sums))]
        self._sums[chunk.uuid] = total

    def _sum(self, chunk: MetadataHead) -> int:
        """What came of the message before; a first chunk begins it anew, as it does for consumers."""
        return self._sums.get(chunk.uuid, 0) if chunk.chunk_id else 0
