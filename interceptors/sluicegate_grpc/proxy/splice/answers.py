"""Watches broker responses: confirms attachments and rewrites addresses.

All other responses pass unread.
"""

from collections.abc import Callable

from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.delivering import Delivering
from sluicegate_grpc.proxy.splice.messages import PREFIX, UnreadableError, read_prefix
from sluicegate_grpc.proxy.splice.requests import Request
from sluicegate_grpc.proxy.splice.resumable import Resumable
from sluicegate_grpc.proxy.splice.rewriting import Rewriting
from sluicegate_grpc.proxy.splice.shared import Rewrite
from sluicegate_grpc.proxy.splice.watcher import Watcher
from sluicegate_grpc.semantics.calls import Attaching, Id, Stream
from sluicegate_grpc.semantics.fields import Values

_MAX_ANSWER = 65_536
"""Of an answer that is only read; a longer one is taken to say nothing."""


class Answer(Watcher):
    """A response that is read and passes unchanged.

    :param request: what it answers.
    :param succeeded: called with its message and the time once the broker reports success.
    :param failed: called with the time if it fails, and with whether the broker has reported that.
    """

    __slots__ = ("_content", "_failed", "_request", "_succeeded")

    def __init__(
        self,
        connection: Connection,
        stream: int,
        request: Request,
        succeeded: Callable[[bytes, int], None] = lambda message, now_ns: None,
        failed: Callable[[int, bool], None] = lambda now_ns, is_known: None,
    ) -> None:
        super().__init__(connection, stream)
        self._request = request
        self._succeeded = succeeded
        self._failed = failed
        self._content = b""

    def data(self, data: bytes, at: int, stop: int, flags: int, now_ns: int) -> None:
        """Read the frame and let it pass."""
        begin, end = self._down.through(data, at, stop, flags, self._stream)
        if len(self._content) + end - begin <= _MAX_ANSWER:
            self._content += data[begin:end]

    def trailers(self, block: bytes, frames: bytes, now_ns: int) -> bool:
        """Read the status of the call."""
        if self._header(block, "grpc-status") != "0":
            self._failed(now_ns, True)
            return True
        if self._request.credentials:
            self._shared.accept(self._request.credentials)
        self._succeeded(self._message(), now_ns)
        return True

    def _message(self) -> bytes:
        content = self._content
        if len(content) < PREFIX:
            return b""
        packed, size = read_prefix(content)
        try:
            return self._plain(content[PREFIX : PREFIX + size], packed, _MAX_ANSWER)
        except UnreadableError:
            return b""

    def ended(self, now_ns: int, *, by_client: bool) -> None:
        """The stream was reset: the outcome is unknown."""
        self._failed(now_ns, False)


class Answers:
    """The broker's responses on one connection that have to be read.

    :param connection: the client's.
    """

    __slots__ = ("_connection", "_down", "ready", "watchers")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._down = connection.down
        self.watchers: dict[int, Watcher] = {}
        """Who looks at which stream."""
        self.ready: set[Delivering] = set()
        """Deliveries that may go on, as something was acknowledged."""

    @property
    def deliveries(self) -> int:
        """Streams by which messages are delivered."""
        return sum(isinstance(watcher, Delivering) for watcher in self.watchers.values())

    def _watch(self, stream: int, watcher: Watcher) -> None:
        self.watchers[stream] = watcher
        self._down.watched.add(stream)

    def accept(self, stream: int, request: Request) -> None:
        """Watch whether the broker accepts a call with new credentials."""
        if stream not in self.watchers:
            self._watch(stream, Answer(self._connection, stream, request))

    def prove(self, stream: int, request: Request, producer: Id) -> None:
        """Watch whether the broker knows a producer whose name is only claimed, or that can be resumed."""
        calls = self._connection.shared.calls

        def succeeded(message: bytes, now_ns: int) -> None:
            calls.publish_answered(producer, now_ns, is_known=True)

        def failed(now_ns: int, is_known: bool) -> None:
            calls.publish_answered(producer, now_ns, is_known=False)

        if stream in self.watchers:
            return
        answer: Watcher | None = None
        aliases = self._connection.shared.aliases
        if aliases is None or producer in calls.unconfirmed or request.credentials:
            answer = Answer(self._connection, stream, request, succeeded, failed)
        if aliases is not None and isinstance(producer, int):
            answer = Resumable(self._connection, stream, request, producer, aliases, answer, self.watchers)
        if answer is not None:
            self._watch(stream, answer)

    def attach(self, stream: int, request: Request, attaching: Attaching) -> None:
        """Read the id that the broker gives a producer or consumer, if it accepts it."""
        calls = self._connection.shared.calls

        def succeeded(message: bytes, now_ns: int) -> None:
            called = None
            if request.known_method.attachment:
                values = request.plans.response.read(message, 0, len(message))
                called = values.attachment if isinstance(values, Values) else None
            calls.attached(attaching, called, now_ns)

        def failed(now_ns: int, is_known: bool) -> None:
            calls.failed(attaching, now_ns, is_known=is_known)

        self._watch(stream, Answer(self._connection, stream, request, succeeded, failed))

    def detach(self, stream: int, request: Request, leave: Callable[[int], None]) -> None:
        """Watch whether the broker detaches a producer or consumer."""

        def succeeded(message: bytes, now_ns: int) -> None:
            leave(now_ns)

        self._watch(stream, Answer(self._connection, stream, request, succeeded))

    def rewrite(self, stream: int, request: Request, rewrite: Rewrite) -> None:
        """Rewrite the response of a call."""
        self._watch(stream, Rewriting(self._connection, stream, rewrite))

    def tells_of(self, stream: int, topic: str) -> None:
        """Note which topic a rewritten response is about."""
        watcher = self.watchers.get(stream)
        if isinstance(watcher, Rewriting):
            watcher.topic = topic

    def deliver(self, stream: int, request: Request, delivery: Stream) -> None:
        """Meter the messages that the broker sends to a consumer."""
        watcher = Delivering(self._connection, stream, request, delivery, self.watchers)
        delivery.on_acknowledged(lambda: self.ready.add(watcher))
        self._watch(stream, watcher)

    def over(self, stream: int, now_ns: int) -> None:
        """The broker has reset a stream."""
        watcher = self.watchers.pop(stream, None)
        if watcher is not None:
            watcher.ended(now_ns, by_client=False)
        self._down.over(stream)

    def cancelled(self, stream: int, now_ns: int) -> None:
        """The client has reset a stream."""
        watcher = self.watchers.pop(stream, None)
        if watcher is not None:
            watcher.ended(now_ns, by_client=True)
        self._down.over(stream)

    def go_on(self, now_ns: int) -> None:
        """Send the messages that an acknowledgement has released."""
        while self.ready:
            self.ready.pop().pump(now_ns)

    def closed(self, now_ns: int) -> None:
        """The connection is closed."""
        for stream in tuple(self.watchers):
            self.cancelled(stream, now_ns)
        self.ready.clear()
