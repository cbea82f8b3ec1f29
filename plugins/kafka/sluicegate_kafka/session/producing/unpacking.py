"""The unpacking of one compressed batch, a piece at a time, in the event loop or in a thread."""

from collections.abc import Iterator
from typing import ClassVar

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.unpacked_walk import PIECE


class Unpacking:
    """Asks the front for the next piece of a batch's records.

    :param codec: the lowest bits of the batch's attributes.
    :param packed: the batch without its header.
    :param limit: bytes that it may unpack to.
    """

    is_loaded: ClassVar[bool] = False
    """True once the library is loaded; a thread does that, as it takes long."""

    __slots__ = (
        "_codec",
        "_limit",
        "_memory",
        "_packed",
        "_pieces",
        "is_done",
        "piece",
        "problem",
    )

    def __init__(self, codec: int, packed: bytes, limit: int) -> None:
        self._codec = codec
        self._packed = packed
        self._limit = limit
        self._memory = 0
        self._pieces: Iterator[bytes] | None = None
        self.piece = b""
        """What was unpacked last."""
        self.problem = ""
        """Why it cannot be unpacked; empty if it can."""
        self.is_done = False
        """True with the last piece."""

    def run(self) -> None:
        """Unpack the next piece; in a thread this leaves the interpreter to others."""
        if self._pieces is None:
            from sluicegate_kafka.codec.compression import MEMORY, unpacked  # loads pyarrow

            Unpacking.is_loaded = True
            self._memory = MEMORY.get(self._codec, 0)
            self._pieces = unpacked(self._codec, self._packed, self._limit)
        try:
            self.piece = next(self._pieces, b"")
        except ProtocolError as error:
            self.problem = error.reason
        self.is_done = len(self.piece) < PIECE

    def memory(self, nbytes: int) -> int:
        """Bytes of memory that it takes.

        :param nbytes: bytes that were unpacked before this piece.
        """
        return len(self.piece) + min(nbytes, self._memory)
