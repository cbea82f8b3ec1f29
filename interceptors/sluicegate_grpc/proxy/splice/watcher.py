"""What handles the broker's frames of one stream that does not just pass."""

from abc import abstractmethod
from typing import Protocol

from sluicegate_grpc.proxy.splice.blocks import value_alone
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.frames import DATA, END_STREAM, frame
from sluicegate_grpc.proxy.splice.messages import inflated
from sluicegate_grpc.semantics.status import Refusal


class Watcher:
    """Handles the response of one call.

    :param connection: where it comes.
    :param stream: its id.
    """

    __slots__ = ("_block", "_connection", "_down", "_stream")

    def __init__(self, connection: Connection, stream: int) -> None:
        self._connection = connection
        self._down = connection.down
        self._stream = stream
        self._block = b""

    def head(self, block: bytes) -> None:
        """The response's headers, which pass."""
        self._block = block

    @abstractmethod
    def data(self, data: bytes, at: int, stop: int, flags: int, now_ns: int) -> None:
        """A DATA frame."""

    @abstractmethod
    def trailers(self, block: bytes, frames: bytes, now_ns: int) -> bool:
        """The end of the response; True if it passes unchanged."""

    @abstractmethod
    def ended(self, now_ns: int, *, by_client: bool) -> None:
        """The stream was reset before its end."""

    def breaks_off(self, now_ns: int) -> None:
        """The response has ended by END_STREAM on DATA: no status says how."""
        # gRPC ends by trailers, but a proxy in front of the broker may answer without.
        self._down.watched.discard(self._stream)
        self.ended(now_ns, by_client=False)

    def _header(self, block: bytes, name: str) -> str:
        """One header of a block of the response; empty if it has none of that name.

        :raises WireError: if the block cannot be read.
        """
        return value_alone(block, name, self._connection.shared.limits.header_list_bytes)

    def _plain(self, message: bytes, packed: int, limit: int) -> bytes:
        """A message of the response, decompressed.

        :param packed: the flag of its prefix: not 0 if it is compressed.
        :param limit: of the result, in bytes.
        :raises UnreadableError: if its compression is unknown or invalid, or if it is too large.
        """
        return inflated(message, self._header(self._block, "grpc-encoding"), limit) if packed else message


class BreakOff(Protocol):
    """Ends a call whose response is under way."""

    def __call__(self, stream: int, refusal: Refusal, now_ns: int, /, *, alone: bool, is_over: bool) -> None:
        """End it. Parameters as for `Refusals.break_off`."""


class Watchers(dict[int, Watcher]):
    """What handles responses of one connection, by stream, and what ends their calls."""

    __slots__ = ("break_off",)

    break_off: BreakOff

    def break_off_by(self, break_off: BreakOff) -> None:
        """Set what ends a call whose response is under way."""
        self.break_off = break_off


class Withholding(Watcher):
    """Handles a response whose end is forwarded behind the bytes that wait; DATA with END_STREAM is cut."""

    __slots__ = ()

    def breaks_off(self, now_ns: int) -> None:
        """The response has ended without trailers."""
        last = frame(DATA, END_STREAM, self._stream)
        if self.trailers(b"", last, now_ns):
            self._down.insert(last)
