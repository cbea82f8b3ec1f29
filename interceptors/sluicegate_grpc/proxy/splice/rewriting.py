"""Rewritten responses of the broker, such as a lookup's, which must name the gateway's address."""

from collections import deque

from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.blocks import ending
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.flow import Chunk
from sluicegate_grpc.proxy.splice.frames import HEAD, ErrorCode, WireError, unpadded
from sluicegate_grpc.proxy.splice.messages import PREFIX, UnreadableError, read_prefix, with_prefix
from sluicegate_grpc.proxy.splice.requests import Rewrite
from sluicegate_grpc.proxy.splice.watcher import Withholding
from sluicegate_grpc.semantics.status import Refusal


class Rewriting(Withholding):
    """A response that is buffered until its message is complete, then rewritten.

    :param rewrite: makes the message.
    """

    __slots__ = ("_chunks", "_outlet", "_refusal", "_rewrite", "_size", "_topic")

    def __init__(self, connection: Connection, stream: int, rewrite: Rewrite) -> None:
        super().__init__(connection, stream)
        self._outlet = connection.down.flow.open(stream)
        self._rewrite = rewrite
        self._topic = ""
        """The topic that was looked up; empty if it is not known."""
        self._chunks: deque[Chunk] = deque()
        self._size = 0
        self._refusal: Refusal | None = None
        """Ends the call, whatever the status of the broker."""

    def is_about(self, topic: str) -> None:
        """The topic that was looked up."""
        self._topic = topic

    def data(self, data: bytes, at: int, stop: int, flags: int, now_ns: int) -> None:
        """Buffer the response until it is complete.

        :raises WireError: if it is too large or cannot be read, as it must not pass unread.
        """
        down, limit = self._down, self._connection.shared.limits.message_bytes
        begin, end = unpadded(data, at, stop, flags)
        down.cut(at, stop)
        self._size += end - begin
        if self._size > limit:
            raise _unreadable(f"a response of over {limit} bytes")
        padding = stop - at - HEAD - (end - begin)
        self._chunks.append(down.flow.keep(self._outlet, data[begin:end], padding, limit))
        while self._size >= PREFIX and self._rewrite_message(now_ns):
            pass

    def _rewrite_message(self, now_ns: int) -> bool:
        """Send the rewritten message; False if it is incomplete."""
        content = b"".join(chunk.payload for chunk in self._chunks)
        packed, size = read_prefix(content)
        stop = PREFIX + size
        if len(content) < stop:
            return False
        try:
            message = self._plain(content[PREFIX:stop], packed, self._connection.shared.limits.message_bytes)
        except UnreadableError:
            encoding = self._header(self._block, "grpc-encoding")
            raise _unreadable(f"a response with the compression {encoding!r}") from None
        rewritten = self._rewrite(message)
        if self._topic:
            self._connection.shared.brokers.looked_up(self._topic, message, now_ns)
        flow = self._down.flow
        for chunk in self._chunks:
            flow.drop(self._outlet, chunk)
        self._chunks.clear()
        if isinstance(rewritten, Refusal):
            self._refusal = rewritten
        else:
            shown = content[:stop] if rewritten is None else with_prefix(rewritten)
            flow.send(self._outlet, flow.own(self._outlet, shown))
        self._size = len(content) - stop
        if self._size:
            self._chunks.append(flow.own(self._outlet, content[stop:]))
        return self._size >= PREFIX

    def trailers(self, block: bytes, frames: bytes, now_ns: int) -> bool:
        """The end of the response; the rest of a truncated message is discarded."""
        self._drop()
        # By the broker's status the call has succeeded, but the client got no message.
        if self._refusal is not None:
            self._down.ends(self._outlet, ending(self._stream, self._refusal, alone=False))
            return False
        if not self._outlet.items:
            self._down.over(self._stream)
            return True
        self._down.ends(self._outlet, frames)
        return False

    def ended(self, now_ns: int, *, by_client: bool) -> None:
        """The stream was reset."""
        self._drop()

    def _drop(self) -> None:
        self._down.flow.discard(self._outlet, self._chunks)
        self._chunks.clear()


def _unreadable(text: str) -> WireError:
    return WireError(ErrorCode.INTERNAL_ERROR, GrpcClose.ANSWER_UNREADABLE, text)
