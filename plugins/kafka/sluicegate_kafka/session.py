"""One Kafka client connection: cuts the streams into frames and sends each to the room that knows it.

Rules of this file: no IO, no clock, no policy. It knows frames, their order, and who handles which API;
what a Produce, Fetch or group request means is told by `producing`, `fetching` and `grouping`.
"""

from collections.abc import Sequence
from struct import Struct

from sluicegate.broker import (
    PASS,
    Ask,
    Close,
    Command,
    PauseReading,
    ResumeReading,
    ToClient,
    ToUpstream,
    WakeAt,
)
from sluicegate_kafka.addressing import Addressing
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import bad_length, parse_request_head
from sluicegate_kafka.connection import Connection, Handler
from sluicegate_kafka.fetching import Fetching
from sluicegate_kafka.grouping import Grouping
from sluicegate_kafka.handshake import Handshake
from sluicegate_kafka.listing import ListGroups
from sluicegate_kafka.partial import NoRoomError, Partial
from sluicegate_kafka.pending import Owed
from sluicegate_kafka.producing import Producing
from sluicegate_kafka.shared import Shared
from sluicegate_kafka.supported import HIDDEN, SUPPORTED
from sluicegate_kafka.suspended import Suspended

_read_head = Struct(">ihhi").unpack_from
"""Length, api key, api version, correlation id: what every request starts with."""
_read_response = Struct(">ii").unpack_from
_HEAD = 12
_MIN_REQUEST = 8
_MIN_RESPONSE = 4
_RESPONSE_HEAD = 8
_BACKLOG_LIMIT = 256 * 1024
"""Bytes that are read ahead behind a held request, so that a client that hangs up is noticed."""


class KafkaSession:
    """One client connection and its upstream connection, without their sockets (`broker.Session`)."""

    __slots__ = (
        "_backlog",
        "_backlog_bytes",
        "_handlers",
        "_partial_request",
        "_partial_response",
        "_paused",
        "_shared",
        "_skip_client",
        "_skip_upstream",
        "_suspended",
        "_suspended_bytes",
        "_wake_ns",
        "connection",
        "fetching",
        "grouping",
        "handshake",
        "outstanding",
        "producing",
    )

    def __init__(self, shared: Shared, peer: str, node: str = "", now_ns: int = 0) -> None:
        self._shared = shared
        self.connection = connection = Connection(peer, node, now_ns)
        self.outstanding = connection.outstanding
        self.handshake = Handshake(shared, connection)
        self.producing = Producing(shared, connection)
        self.grouping = Grouping(shared, connection)
        self.fetching = Fetching(shared, connection)
        addressing = Addressing(shared, connection)
        shared.releases[connection] = (self.producing.release_idle, self.fetching.reading.release_idle)
        handlers: dict[int, Handler] = {
            ApiKey.PRODUCE: self.producing.request,
            ApiKey.FETCH: self.fetching.request,
            **self.grouping.handlers,
            **self.handshake.handlers,
            **addressing.handlers,
        }
        self._handlers = {key: (handler, *SUPPORTED[key]) for key, handler in handlers.items()}
        self._partial_request = Partial(shared.budget)
        self._partial_response = Partial(shared.budget)
        self._skip_client = 0
        self._skip_upstream = 0
        self._backlog: list[bytes] = []
        self._backlog_bytes = 0
        self._suspended: Suspended | None = None
        self._suspended_bytes = 0
        self._paused = False
        self._wake_ns = 0

    @property
    def held_bytes(self) -> int:
        """Bytes kept for this connection."""
        requests = self._partial_request.size + self._suspended_bytes + self._backlog_bytes
        return requests + self._partial_response.size + self.outstanding.held_bytes

    @property
    def mid_frame(self) -> bool:
        """True while a request has arrived only in part."""
        return self._suspended is None and (self._partial_request.size > 0 or self._skip_client > 0)

    @property
    def client(self) -> str:
        """Client id and peer address."""
        return self.connection.client

    # -- from the client --------------------------------------------------------------------------

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the client: forward what passes, in runs; hold what must wait."""
        # <hot> These lines are the way of nearly every Produce request.
        at = 0
        repeated = self.producing.repeated
        waiting = self._suspended or self._skip_client or self._partial_request.size
        if repeated is not None and not waiting:
            end = len(data)
            while at < end and (stop := repeated.again(data, at, end, now_ns)):
                at = stop
            if at == end:
                return PASS
        return self._read(data, at, now_ns)

    def _read(self, data: bytes, passed: int, now_ns: int) -> Sequence[Command]:
        """Read the long way what came from the client, but for the first bytes, which have passed already."""
        self.connection.heard_ns = now_ns
        if self._suspended is not None:
            return self._read_ahead(data)
        if self._skip_client:
            skipped = self._skip_client
            if len(data) < skipped or (len(data) == skipped and not self.connection.injected):
                self._skip_client -= len(data)
                return PASS
            self._skip_client = 0
            rest = data[skipped:]
            first = [ToUpstream(memoryview(data)[:skipped]), *self.connection.asked(mid_request=False)]
            commands = _as_commands(ToUpstream, rest, self.receive_client(rest, now_ns)) if rest else ()
            return [*first, *commands]
        out: list[Command] = []
        try:
            if self._partial_request.size:
                whole = self._partial_request.add(data)
                if whole is None:
                    return out
                return _as_commands(ToUpstream, whole, self.receive_client(whole, now_ns))
            self._requests(data, passed, now_ns, out)
        except ProtocolError as error:
            out.append(Close("malformed_request", f"{error} from {self.client}"))
        except NoRoomError:
            out.append(_no_room())
        return out

    def _requests(  # noqa: C901 - one loop
        self, data: bytes, at: int, now_ns: int, out: list[Command]
    ) -> None:
        """Walk the whole frames in `data` from `at`; `run` is where the bytes not yet forwarded begin."""
        handlers = self._handlers
        run = 0
        end = len(data)
        while end - at >= _HEAD:
            length, api_key, _, correlation_id = _read_head(data, at)
            if length < _MIN_REQUEST or length > self._shared.max_frame_bytes:
                raise bad_length(data, at, length)
            stop = at + 4 + length
            found = handlers.get(api_key)
            if found is None:
                at = self._pass_unread(api_key, correlation_id, stop, end)
                continue
            if stop > end:
                break
            begin, at = at, stop
            passed = self._handle(found, data, begin + 4, stop, now_ns)
            if passed is True:
                continue
            if begin > run:
                out.append(ToUpstream(memoryview(data)[run:begin]))
            run = at
            self._flush_parts(out)
            if isinstance(passed, Suspended) and self._suspend(passed, data[at:], now_ns, out):
                return
        if at > run:
            out.append(ToUpstream(data if run == 0 and at == end else memoryview(data)[run:at]))
        if at < end:
            self._keep(data[at:])
        if self.outstanding.finished:
            out.extend(self._answers(now_ns))

    def _handle(
        self, found: tuple[Handler, int, int], data: bytes, start: int, stop: int, now_ns: int
    ) -> bool | Suspended:
        """Have a request handled by the room that knows its API, if it knows this version."""
        handler, lowest, highest = found
        _, api_key, version, _ = _read_head(data, start - 4)
        if not lowest <= version <= highest:
            return self.handshake.refuse_version(data[start:stop], api_key, version)
        head = parse_request_head(data, start, stop)
        self.connection.client_id = head.client_id
        return handler(data, head, now_ns)

    def _pass_unread(self, api_key: int, correlation_id: int, stop: int, end: int) -> int:
        """Let a request through that no policy asks about, even if only its start has come."""
        if api_key in HIDDEN:
            raise ProtocolError(f"api key {api_key} is not offered through the gate")
        self._shared.count_passed(api_key)
        self.outstanding.expect(correlation_id)
        if stop > end:
            self._skip_client = stop - end
        return min(stop, end)

    def _keep(self, rest: bytes) -> None:
        """Keep the start of a frame until the rest of it has come."""
        need = 4 + _read_head(rest, 0)[0] if len(rest) >= _HEAD else _HEAD
        self._partial_request.begin(rest, need)

    # -- holding ----------------------------------------------------------------------------------

    def _flush_parts(self, out: list[Command]) -> None:
        parts = self.connection.parts
        out.extend(ToUpstream(part) for part in parts)
        parts.clear()

    def _suspend(self, why: Suspended, rest: bytes, now_ns: int, out: list[Command]) -> bool:
        """Stop after a request that must wait; what the client sends meanwhile is read ahead.

        :return: False if there is no room to hold it, so that it was answered, or its client is closed.
        """
        if not self._shared.budget.take(len(why.frame)):
            if why.refuse is None:
                why.abandon(now_ns)
                out.append(_no_room())
            else:
                why.refuse(now_ns)
            return False
        self._suspended_bytes = len(why.frame)
        self._suspended = why
        if rest:
            out.extend(self._read_ahead(rest))
        out.extend(self._answers(now_ns))
        if why.question is not None:
            out.append(Ask(why.question))
        else:
            self._wake(why.wake_ns, out)
        return True

    def _end_suspension(self) -> Suspended | None:
        """What was held, which is no longer kept here."""
        why, self._suspended = self._suspended, None
        self._shared.budget.give(self._suspended_bytes)
        self._suspended_bytes = 0
        return why

    def _read_ahead(self, data: bytes) -> list[Command]:
        if not self._shared.budget.take(len(data)):
            return [_no_room()]
        self._backlog.append(data)
        self._backlog_bytes += len(data)
        if self._backlog_bytes >= _BACKLOG_LIMIT and not self._paused:
            self._paused = True
            return [PauseReading()]
        return []

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """A held request or response may be due."""
        self._wake_ns = 0
        out: list[Command] = []
        if client_gone:
            return [Close("client_gone")]
        held = self._suspended
        if held is not None and held.question is None:
            if held.wake_ns <= now_ns:
                self._retry(now_ns, out)
            else:
                self._wake(held.wake_ns, out)
        out.extend(self._answers(now_ns))
        return out

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """What a held request asked for is known (or cannot be known: then an exception)."""
        out: list[Command] = []
        if isinstance(answer, Exception) and isinstance(question, ListGroups):
            self._shared.listing.learned(None, now_ns, now_ns)
        if self._suspended is not None:
            self._retry(now_ns, out)
        self.grouping.answered(now_ns)
        out.extend(self._answers(now_ns))
        return out

    def _retry(self, now_ns: int, out: list[Command]) -> None:
        why = self._end_suspension()
        if why is None:
            return
        try:
            passed = why.retry(now_ns)
        except ProtocolError as error:
            why.abandon(now_ns)
            out.append(Close("malformed_request", f"{error} from {self.client}"))
            return
        self._flush_parts(out)
        if isinstance(passed, Suspended):
            if self._suspend(passed, b"", now_ns, out):
                return
        elif passed:
            out.append(ToUpstream(why.request))
        self._resume(now_ns, out)

    def _resume(self, now_ns: int, out: list[Command]) -> None:
        """Go on with what was read ahead."""
        backlog, self._backlog = b"".join(self._backlog), []
        self._shared.budget.give(self._backlog_bytes)
        self._backlog_bytes = 0
        if backlog:
            out.extend(_as_commands(ToUpstream, backlog, self.receive_client(backlog, now_ns)))
        if self._paused and self._suspended is None:
            self._paused = False
            out.append(ResumeReading())

    def _wake(self, at_ns: int, out: list[Command]) -> None:
        """Ask for the earliest wake-up that is needed."""
        if self._wake_ns == 0 or at_ns < self._wake_ns:
            self._wake_ns = at_ns
            out.append(WakeAt(at_ns))

    def _answers(self, now_ns: int) -> list[Command]:
        """Responses whose turn and time have come; none while one is on its way in pieces."""
        out = self.connection.asked(mid_request=self._skip_client > 0)
        if self._skip_upstream:
            return out
        out += self.outstanding.release(now_ns)
        due = self.outstanding.due_ns
        if due is not None:
            self._wake(due, out)
        return out

    # -- from the broker --------------------------------------------------------------------------

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:  # noqa: C901 - hot
        """Bytes from the broker: forward what passes, in runs; collect what is to be seen whole."""
        if self._skip_upstream:
            return self._stream(data, now_ns)
        if self._partial_response.size:
            return self._collect(data, now_ns)
        # <hot> The way of nearly every response: it is its turn, and it passes unread.
        queue = self.outstanding.queue
        at = 0
        end = len(data)
        while queue and end - at >= _RESPONSE_HEAD:
            length, correlation_id = _read_response(data, at)
            head = queue[0]
            if type(head) is tuple:
                if head[0] != correlation_id or head[1].plain_length != length:
                    break
            elif head != correlation_id or length < _MIN_RESPONSE:
                break
            queue.popleft()
            at += 4 + length
        if at > end:
            self._skip_upstream = at - end
            at = end
        if at == end and not self.outstanding.finished:
            return PASS
        out: list[Command] = []
        try:
            self._responses(data, at, now_ns, out)
        except ProtocolError as error:
            out.append(Close("malformed_response", str(error)))
        except NoRoomError:
            out.append(_no_room())
        return out

    @property
    def unread_bytes(self) -> int:
        """How many of the broker's next bytes pass unread."""
        return self._skip_upstream

    def passed(self, count: int, now_ns: int) -> Sequence[Command]:
        """So many of them have gone to the client."""
        self._skip_upstream -= count
        return self._answers(now_ns)

    def _stream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Go on with a response that passes unread."""
        skipped = self._skip_upstream
        if len(data) < skipped or (len(data) == skipped and not self.outstanding.finished):
            self._skip_upstream -= len(data)
            return PASS
        self._skip_upstream = 0
        rest = data[skipped:]
        commands = _as_commands(ToClient, rest, self.receive_upstream(rest, now_ns))
        return [ToClient(memoryview(data)[:skipped]), *commands]

    def _collect(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Go on with a response that is to be seen whole."""
        try:
            whole = self._partial_response.add(data)
        except NoRoomError:
            return [_no_room()]
        if whole is None:
            return []
        return _as_commands(ToClient, whole, self.receive_upstream(whole, now_ns))

    def _responses(self, data: bytes, at: int, now_ns: int, out: list[Command]) -> None:
        """Walk the responses in `data` from `at`; `run` is where the bytes not yet forwarded begin."""
        outstanding = self.outstanding
        run = 0
        end = len(data)
        queue = outstanding.queue
        while end - at >= _RESPONSE_HEAD:
            length, correlation_id = _read_response(data, at)
            stop = at + 4 + length
            head = queue[0] if queue else None
            if head == correlation_id and length >= _MIN_RESPONSE:
                queue.popleft()
                if stop > end:
                    self._skip_upstream = stop - end
                at = min(stop, end)
                continue
            if stop > end:
                break
            if type(head) is tuple and head[0] == correlation_id and head[1].passes(data[at + 4 : stop]):
                queue.popleft()
                at = stop
                continue
            if at > run:
                out.append(ToClient(memoryview(data)[run:at]))
            self._finish(data, at, stop, now_ns)
            out.extend(self._answers(now_ns))
            run = at = stop
        if at > run:
            out.append(ToClient(data if run == 0 and at == end else memoryview(data)[run:at]))
        if outstanding.finished:
            out.extend(self._answers(now_ns))
        if at < end:
            self._expect_rest(data[at:])

    def _expect_rest(self, rest: bytes) -> None:
        """Keep the start of a response that is to be seen whole until the rest of it has come."""
        need = 4 + _read_response(rest, 0)[0] if len(rest) >= _RESPONSE_HEAD else _RESPONSE_HEAD
        if need > self._shared.max_response_bytes:
            raise ProtocolError(f"response of {need!r} bytes from the broker is too large to read")
        self._partial_response.begin(rest, need)

    def _finish(self, data: bytes, start: int, stop: int, now_ns: int) -> None:
        """Put a response that came whole in the place of the entry that it belongs to."""
        length, correlation_id = _read_response(data, start)
        if length < _MIN_RESPONSE:
            raise ProtocolError(f"response of length {length!r} from the broker")
        entry = self.outstanding.arrived()
        if entry is None or _correlation_id(entry) != correlation_id:
            due = None if entry is None else _correlation_id(entry)
            raise ProtocolError(f"response to {correlation_id!r} from the broker where {due!r} is due")
        whole = data if stop - start == len(data) else memoryview(data)[start:stop]
        if isinstance(entry, int):
            self.outstanding.replace(entry, whole)
            return
        handle = entry[1].handle if isinstance(entry, tuple) else entry.handle
        frame = data[start + 4 : stop]
        made = handle(frame, now_ns)
        self.outstanding.replace(entry, whole if made is frame else made)

    # -- the end ----------------------------------------------------------------------------------

    def closed(self, now_ns: int) -> None:
        """The connection is gone: whatever it held or was counted for is released."""
        if (held := self._end_suspension()) is not None:
            held.abandon(now_ns)
        self._partial_request.drop()
        self._partial_response.drop()
        self._shared.budget.give(self._backlog_bytes)
        self._backlog_bytes = 0
        self._backlog.clear()
        self.producing.closed(now_ns)
        self.fetching.closed(now_ns)
        self.grouping.closed(now_ns)
        self._shared.forget(self.connection)


def _as_commands(
    send: type[ToUpstream] | type[ToClient], data: bytes, commands: Sequence[Command]
) -> Sequence[Command]:
    """What was said about bytes that are not those which have just come."""
    return (send(data),) if commands is PASS else commands


def _no_room() -> Close:
    return Close("buffer_budget_used_up", "all clients together hold too many bytes")


def _correlation_id(entry: Owed) -> int:
    if isinstance(entry, int):
        return entry
    return entry[0] if isinstance(entry, tuple) else entry.correlation_id
