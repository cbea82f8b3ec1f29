"""The unpacking or packing of one payload, in the event loop or in a thread."""

from typing import ClassVar

from sluicegate_pulsar.codec.errors import ProtocolError


class Repacking:
    """Asks the front to unpack or pack a payload.

    :param compression: a value of MessageMetadata.CompressionType.
    :param payload: to unpack, or to pack.
    :param size: bytes that it unpacks to; None to pack it.
    """

    is_loaded: ClassVar[bool] = False
    """True once the library is loaded; a thread does that, as it takes long."""

    __slots__ = ("_compression", "_payload", "_size", "problem", "result")

    def __init__(self, compression: int, payload: bytes, size: int | None) -> None:
        self._compression = compression
        self._payload = payload
        self._size = size
        self.result = b""
        self.problem = "the gateway has not unpacked it"
        """Why there is no result; empty if there is one."""

    def run(self) -> None:
        """Do it; in a thread this leaves the interpreter to others."""
        from sluicegate_pulsar.codec.payloads import packed, unpacked  # loads pyarrow

        Repacking.is_loaded = True
        try:
            if self._size is None:
                self.result = packed(self._compression, self._payload)
            else:
                self.result = unpacked(self._compression, self._payload, self._size)
            self.problem = ""
        except ProtocolError as error:
            self.problem = error.reason
