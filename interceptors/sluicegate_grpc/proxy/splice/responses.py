"""Watches broker responses: confirms attachments and rewrites addresses.

All other responses pass unread.
"""

from collections.abc import Callable

from sluicegate.sessions.work import Ask, Task, Turn, Work
from sluicegate_grpc.proxy.splice.blocks import ending
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.delivering import Delivering
from sluicegate_grpc.proxy.splice.messages import PREFIX, UnreadableError, read_prefix
from sluicegate_grpc.proxy.splice.requests import Request, Rewrite
from sluicegate_grpc.proxy.splice.resuming import NO_OWNER, Aliases, Resume, Resumed
from sluicegate_grpc.proxy.splice.rewriting import Rewriting
from sluicegate_grpc.proxy.splice.watcher import Watcher, Watchers
from sluicegate_grpc.semantics.calls import Attaching, Id, Stream
from sluicegate_grpc.semantics.fields import Values
from sluicegate_grpc.semantics.status import UNAVAILABLE, Refusal

_MAX_RESPONSE = 65_536
"""Of a response that is only read; a longer one is taken to say nothing."""
_AGAIN = Refusal(
    UNAVAILABLE, "The topic has another owner. The producer was created there. Send the message again."
)


class ReadResponse(Watcher):
    """A response that is read and passes unchanged.

    :param request: the call's.
    :param done: called with its message (None if the call failed), the time, and whether the broker has
        reported the end; else the outcome is unknown.
    """

    __slots__ = ("_content", "_done", "_request")

    def __init__(
        self,
        connection: Connection,
        stream: int,
        request: Request,
        done: Callable[[bytes | None, int, bool], None] = lambda message, now_ns, is_reported: None,
    ) -> None:
        super().__init__(connection, stream)
        self._request = request
        self._done = done
        self._content = b""

    def data(self, data: bytes, at: int, stop: int, flags: int, now_ns: int) -> None:
        """Read the frame and let it pass."""
        begin, end = self._down.through(data, at, stop, flags, self._stream)
        if len(self._content) + end - begin <= _MAX_RESPONSE:
            self._content += data[begin:end]

    def trailers(self, block: bytes, frames: bytes, now_ns: int) -> bool:
        """Read the status of the call; without one, it is not the broker's."""
        status = self._header(block, "grpc-status")
        if status != "0":
            self._done(None, now_ns, bool(status))
            return True
        if self._request.claim is not None:
            self._connection.shared.accept(self._request.claim.credentials)
        self._done(self._message(), now_ns, True)
        return True

    def _message(self) -> bytes:
        content = self._content
        if len(content) < PREFIX:
            return b""
        packed, size = read_prefix(content)
        try:
            return self._plain(content[PREFIX : PREFIX + size], packed, _MAX_RESPONSE)
        except UnreadableError:
            return b""

    def ended(self, now_ns: int, *, by_client: bool) -> None:
        """The stream was reset: the outcome is unknown."""
        self._done(None, now_ns, False)


class Resumable(Watcher):
    """The response to a publish, which passes unless the broker does not know the producer.

    :param producer: the id by which its client knows it.
    :param reader: another handler of it, if any.
    :param watchers: of the connection's streams, by stream.
    """

    __slots__ = ("_aliases", "_producer", "_reader", "_request", "_resuming", "_watchers")

    def __init__(
        self,
        connection: Connection,
        stream: int,
        request: Request,
        producer: int,
        aliases: Aliases,
        reader: Watcher | None,
        watchers: Watchers,
    ) -> None:
        super().__init__(connection, stream)
        self._request = request
        self._producer = producer
        self._aliases = aliases
        self._reader = reader
        self._watchers = watchers
        self._resuming: Task[bytes] | None = None

    def data(self, data: bytes, at: int, stop: int, flags: int, now_ns: int) -> None:
        """Let the frame pass."""
        if self._reader is not None:
            self._reader.data(data, at, stop, flags, now_ns)
        else:
            self._down.through(data, at, stop, flags, self._stream)

    def head(self, block: bytes) -> None:
        """The response's headers."""
        super().head(block)
        if self._reader is not None:
            self._reader.head(block)

    def trailers(self, block: bytes, frames: bytes, now_ns: int) -> bool:
        """The broker's status; it is withheld while the producer is recreated."""
        shared = self._connection.shared
        is_unknown = not self._aliases.passes(block, shared.limits.header_list_bytes)
        key = shared.calls.attachments.owners.producer(self._producer) if is_unknown else None
        if key is None:
            return self._reader is None or self._reader.trailers(block, frames, now_ns)
        self._watchers[self._stream] = self  # a cancellation by the client is still handled
        self._resuming = task = Task(self._connection.wait, self._resumed, now_ns)
        question = Resume(self._producer, key[0], key[2], self._request.authorization)
        task.begin(self._resume(task, question, frames))
        return False

    def ended(self, now_ns: int, *, by_client: bool) -> None:
        """The stream was reset."""
        if self._resuming is not None:
            self._resuming.close(now_ns)
        elif self._reader is not None:
            self._reader.ended(now_ns, by_client=by_client)

    def _resume(self, turn: Turn, question: Resume, frames: bytes) -> Work[bytes]:
        """Have the producer created; returns what ends the call then."""
        attachments, created = self._connection.shared.calls.attachments, 0
        try:
            resumed: Resumed = (yield Ask(question)) or Resumed(refusal=NO_OWNER)
            created = resumed.created
            if created:
                self._aliases.add(self._producer, created)
                attachments.owners.renamed(self._producer, created)
        finally:
            attachments.claim_resolved(self._producer, turn.now_ns, is_known=bool(created))
        refusal = _AGAIN if created else resumed.refusal
        return frames if refusal is None else ending(self._stream, refusal, alone=not self._block)

    def _resumed(self, end: bytes, now_ns: int) -> None:
        self._watchers.pop(self._stream, None)
        self._down.over(self._stream)
        self._down.insert(end)


class Responses:
    """The broker's responses on one connection that have to be read.

    :param connection: the client's.
    """

    __slots__ = ("_connection", "_down", "watchers")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._down = connection.down
        self.watchers = Watchers()
        """Who looks at which stream."""

    @property
    def deliveries(self) -> int:
        """Streams by which the broker delivers messages; not those that it has ended."""
        return len(self._delivering())

    def _delivering(self) -> list[Delivering]:
        watchers = self.watchers.values()
        return [each for each in watchers if isinstance(each, Delivering) and not each.is_ending]

    def end_deliveries(self, refusal: Refusal, now_ns: int) -> None:
        """End the streams by which the broker delivers messages."""
        for watcher in self._delivering():
            watcher.break_off(refusal, now_ns)

    def _watch(self, stream: int, watcher: Watcher) -> None:
        self.watchers[stream] = watcher
        self._down.watched.add(stream)

    def accept(self, stream: int, request: Request) -> None:
        """Watch whether the broker accepts a call with new credentials."""
        if stream not in self.watchers:
            self._watch(stream, ReadResponse(self._connection, stream, request))

    def prove(self, stream: int, request: Request, producer: Id) -> None:
        """Watch whether the broker knows a producer whose name is only claimed, or that can be resumed."""
        calls = self._connection.shared.calls

        def done(message: bytes | None, now_ns: int, is_reported: bool) -> None:
            calls.attachments.claim_resolved(producer, now_ns, is_known=message is not None)

        if stream in self.watchers:  # an earlier message of this stream tells as much
            return
        reader: Watcher | None = None
        aliases = self._connection.shared.aliases
        if aliases is None or producer in calls.attachments.unconfirmed or request.claim:
            reader = ReadResponse(self._connection, stream, request, done)
        if aliases is not None and isinstance(producer, int):
            reader = Resumable(self._connection, stream, request, producer, aliases, reader, self.watchers)
        if reader is not None:
            self._watch(stream, reader)

    def attach(self, stream: int, request: Request, attaching: Attaching) -> None:
        """Read the id that the broker gives a producer or consumer, if it accepts it."""
        calls = self._connection.shared.calls

        def done(message: bytes | None, now_ns: int, is_reported: bool) -> None:
            if message is None:
                calls.attachments.failed(attaching, now_ns, is_known=is_reported)
                return
            broker_id = None
            if request.known_method.attachment:
                values = request.plans.response.read(message, 0, len(message))
                broker_id = values.attachment if isinstance(values, Values) else None
            calls.attachments.attached(attaching, broker_id, now_ns)

        self._watch(stream, ReadResponse(self._connection, stream, request, done))

    def detach(self, stream: int, request: Request, leave: Callable[[int], None]) -> None:
        """Watch whether the broker detaches a producer or consumer."""

        def done(message: bytes | None, now_ns: int, is_reported: bool) -> None:
            if message is not None:
                leave(now_ns)

        self._watch(stream, ReadResponse(self._connection, stream, request, done))

    def rewrite(self, stream: int, request: Request, rewrite: Rewrite) -> None:
        """Rewrite the response of a call."""
        self._watch(stream, Rewriting(self._connection, stream, rewrite))

    def note_topic(self, stream: int, topic: str) -> None:
        """Note which topic a rewritten response is about."""
        watcher = self.watchers.get(stream)
        if isinstance(watcher, Rewriting):
            watcher.is_about(topic)

    def deliver(self, stream: int, request: Request, delivery: Stream) -> None:
        """Meter the messages that the broker sends to a consumer."""
        self._watch(stream, Delivering(self._connection, stream, request, delivery, self.watchers))

    def reset(self, stream: int, now_ns: int, *, by_client: bool) -> None:
        """The client has reset a stream, or the gateway for it; or else the broker has."""
        watcher = self.watchers.pop(stream, None)
        if watcher is not None:
            watcher.ended(now_ns, by_client=by_client)
        self._down.over(stream)

    def closed(self, now_ns: int) -> None:
        """The connection is closed."""
        for stream in tuple(self.watchers):
            self.reset(stream, now_ns, by_client=True)
