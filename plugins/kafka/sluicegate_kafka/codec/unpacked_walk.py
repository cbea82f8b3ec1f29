"""The size of single records in a compressed batch, whose content comes in pieces."""

from typing import Final

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.record_walk import MAX_OVERHEAD, Slice, Walk, misfit
from sluicegate_kafka.codec.records import SMALLEST_RECORD, read_varint
from sluicegate_kafka.codec.slices import Slices

PIECE: Final = 128 * 1024
"""Bytes that are unpacked at a time: less than half a millisecond, whatever the codec."""
_VARINT_BYTES = 10
_PIECE_WORK: Final = 100
_BYTES_SHIFT: Final = 5
"""What a piece costs besides its records, in records passed over: so much, and one for each 32 bytes."""


class UnpackedWalk(Walk):
    """A walk over records that come in pieces, of which it keeps less than one record.

    :param limit: of one message, in bytes.
    :param claimed: how many records there are by the batch's header.
    :param current: the slice that it begins in.
    :param work: what it may cost, in records passed over.
    :param most: bytes that all pieces together may have.
    """

    __slots__ = ("_buffer", "_most", "_need", "_skip", "nbytes")

    def __init__(self, limit: int, claimed: int, current: Slice, work: int, most: int) -> None:
        super().__init__(limit, claimed, current, work)
        self._most = most
        self._buffer = bytearray()
        self._need = self._skip = 0
        self.nbytes = 0
        """Bytes of all pieces so far."""

    @property
    def kept_bytes(self) -> int:
        """Bytes that it keeps: the start of a record whose end has not come."""
        return len(self._buffer)

    def over_piece(self, piece: bytes) -> Slices[None]:
        """Walk the records that end in the next piece.

        :raises ProtocolError: when they are not records, more than claimed, too large, or cost too much.
        """
        self.nbytes += len(piece)
        self.charge(_PIECE_WORK + (len(piece) >> _BYTES_SHIFT))
        skipped = min(self._skip, len(piece))
        self._skip -= skipped
        buffer = self._buffer
        buffer += piece[skipped:] if skipped else piece
        if len(buffer) < self._need:
            return
        self._need = 0
        at = yield from self.over(buffer, 0, len(buffer), _VARINT_BYTES - 1)
        del buffer[:at]
        if len(buffer) >= _VARINT_BYTES and self.largest <= self.limit:
            self._cut_off(buffer)

    def _cut_off(self, buffer: bytearray) -> None:
        """Keep the start of a record only if it has to be measured.

        A record that is over the limit whatever it holds counts whole.
        """
        size, at = read_varint(buffer, 0, len(buffer))
        missing = at + size - len(buffer)
        if self.nbytes + missing > self._most:
            raise too_large(self._most)
        if self.limit + SMALLEST_RECORD < size <= self.limit + MAX_OVERHEAD:
            self._need = at + size
            return
        self.left -= 1
        self.largest = max(self.largest, size if size > self.limit + MAX_OVERHEAD else size - SMALLEST_RECORD)
        self._skip = missing
        buffer.clear()

    def end(self) -> Slices[None]:
        """Walk the rest.

        :raises ProtocolError: when the last record is cut off, or there are not as many as claimed.
        """
        buffer = self._buffer
        at = yield from self.over(buffer, 0, len(buffer))
        if self.largest > self.limit:
            return
        if at < len(buffer):
            raise misfit(read_varint(buffer, at, len(buffer))[0], len(buffer) - at)
        if self._skip:
            raise ProtocolError(f"{self._skip} bytes of the last record in a batch are missing")
        if self.left:
            raise ProtocolError(f"{self.claimed - self.left} records in a batch that claims {self.claimed}")


def too_large(most: int) -> ProtocolError:
    """The batches of a request unpack to more than they may."""
    return ProtocolError(f"more than the {most} bytes that are unpacked at most")
