"""One Kafka client connection: splits the streams into frames and passes each to its handler.

Rules of this file: no IO, no clock, no policy. It knows frames, their order, and the handler of each API;
`producing`, `fetching` and `grouping` know what a Produce, Fetch or group request means.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from sluicegate.broker import (
    PASS,
    Close,
    Command,
    NextTurn,
    PauseReading,
    ResumeReading,
    ToUpstream,
    WakeAt,
)
from sluicegate.model import SessionClose
from sluicegate.sessions.pieces import NO_ROOM, NoRoomError, Pieces
from sluicegate.sessions.work import Running, Until
from sluicegate_kafka.codec.api_keys import HIDDEN, READ, ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.request_sizes import TooLargeError, bad_length
from sluicegate_kafka.codec.slices import Slices, at_once
from sluicegate_kafka.events import KafkaClose, KafkaEvent
from sluicegate_kafka.session.addressing import Addressing
from sluicegate_kafka.session.fetching.fetching import Fetching
from sluicegate_kafka.session.groups.grouping import Grouping
from sluicegate_kafka.session.handshake import OPENING, Handshake
from sluicegate_kafka.session.producing.producing import Producing
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.working import Decided, Handler, next_turn
from sluicegate_kafka.session.responses import ResponseStream, as_commands, close_last
from sluicegate_kafka.session.shared.listing import ListGroups
from sluicegate_kafka.session.shared.shared import Shared

_read_head = Struct(">ihhi").unpack_from
"""Length, api key, api version, correlation id: what every request starts with."""
_HEAD = 12
_MIN_REQUEST = 8
_REQUESTS_PER_TURN = 25
"""Requests read in one turn of the event loop: requests without a response, and those that the gateway
answers itself, are not bounded by what is in flight. A Produce takes 5 us, or 150 us if the gate of its topic
has to be compiled; a join that is refused takes 70 us."""


_AHEAD_BYTES = 256 * 1024
"""Bytes that are read ahead, so that a client that hangs up is noticed."""


class _HeldRequest(NamedTuple):
    """A request that waits."""

    work: Running[bool]
    frame: bytes
    """The buffer that holds it, which is kept and charged as a whole."""
    begin: int
    stop: int


class KafkaSession(ResponseStream):
    """One client connection and its upstream connection, without their sockets."""

    __slots__ = (
        "_ahead",
        "_ahead_paused",
        "_frame_ns",
        "_handlers",
        "_last_api",
        "_partial_request",
        "_sizes",
        "_skip_client",
        "_suspended",
        "_wake_ns",
        "fetching",
        "grouping",
        "handshake",
        "producing",
    )

    def __init__(self, shared: Shared, peer: str, node: str = "", now_ns: int = 0) -> None:
        connection = Connection(peer, node, now_ns, shared.budget)
        super().__init__(shared, connection)
        self.handshake = Handshake(shared, connection)
        self.producing = Producing(shared, connection)
        self.grouping = Grouping(shared, connection)
        self.fetching = Fetching(shared, connection)
        addressing = Addressing(shared, connection)
        shared.releases[connection] = (self.producing.release_idle, self.fetching.reading.release_idle)
        self._handlers: dict[int, Handler] = {
            ApiKey.PRODUCE: self.producing.request,
            ApiKey.FETCH: self.fetching.request,
            **self.grouping.handlers,
            **self.handshake.handlers,
            **addressing.handlers,
        }
        self._partial_request = Pieces(shared.budget)
        self._skip_client = 0
        self._ahead = Pieces(shared.budget)
        """What the client sent behind a request that is held, not yet parsed."""
        self._ahead_paused = False
        """Whether the client is not read from any more."""
        self._suspended: _HeldRequest | None = None
        self._sizes = shared.request_sizes
        self._frame_ns = self._wake_ns = 0
        self._last_api = -1
        """API of the last whole request that was read the long way."""

    @property
    def held_bytes(self) -> int:
        """Bytes kept for this connection."""
        held = len(self._suspended.frame) if self._suspended is not None else 0
        requests = self._partial_request.size + held + self._ahead.size
        requests += self.connection.unpacked_bytes
        return requests + self._partial_response.size + self.outstanding.held_bytes

    @property
    def places_bytes(self) -> int:
        """About how much memory its places on topics take."""
        fetching = self.fetching.reading.places_bytes
        return self.producing.places_bytes + fetching + self.grouping.places_bytes

    @property
    def frame_began_ns(self) -> int:
        """When the current partial request began; 0 if there is none."""
        is_partial = self._suspended is None and (self._partial_request.size > 0 or self._skip_client > 0)
        return self._frame_ns if is_partial else 0

    @property
    def is_logged_in(self) -> bool:
        """True once a whole request has arrived, and a login that the client began was accepted."""
        return self._last_api >= 0 and not (self.handshake.is_open and self._last_api in OPENING)

    @property
    def principal(self) -> str:
        """The principal that the broker has accepted."""
        return self.connection.principal

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
        if repeated is not None and not (self._suspended or self._skip_client or self._partial_request.size):
            end = len(data)
            while at < end and (stop := repeated.again(data, at, end, now_ns)):
                at = stop
            if at == end:
                return PASS
        return self._read(data, at, now_ns)

    def _read(self, data: bytes, passed: int, now_ns: int) -> Sequence[Command]:
        """Read the client's bytes on the slow path, after the first ones, which have passed already."""
        self.connection.heard_ns = now_ns
        if self._suspended is not None or self._is_full:
            return self._read_ahead(data)
        if self._skip_client:
            skipped = self._skip_client
            if len(data) < skipped or (len(data) == skipped and not self.connection.injected):
                self._skip_client -= len(data)
                return PASS
            self._skip_client = 0
            rest = data[skipped:]
            first = [ToUpstream(memoryview(data)[:skipped]), *self.connection.asked(mid_request=False)]
            commands = as_commands(ToUpstream, rest, self.receive_client(rest, now_ns)) if rest else ()
            return [*first, *commands]
        out: list[Command] = []
        try:
            if self._partial_request.size:
                whole = self._partial_request.add(data)
                if whole is None:
                    return out
                return as_commands(ToUpstream, whole, self.receive_client(whole, now_ns))
            self._requests(data, passed, now_ns, out)
        except ProtocolError as error:
            is_large = isinstance(error, TooLargeError)
            counter = KafkaClose.REQUEST_TOO_LARGE if is_large else KafkaClose.MALFORMED_REQUEST
            out.extend(self._answers(now_ns))  # to the requests before it
            out.append(Close(counter, f"{error} from {self.client}"))
        except NoRoomError:
            out.append(Close(*NO_ROOM))
        return close_last(out) if len(out) > 1 else out

    def _requests(  # noqa: C901 - one loop
        self, data: bytes, at: int, now_ns: int, out: list[Command]
    ) -> None:
        """Walk the whole frames in `data` from `at`; `run` is where the bytes not yet forwarded begin."""
        handlers, largest = self._handlers, self._sizes
        queue, most_owed = self.outstanding.queue, self._most_owed
        api_key = self._last_api
        run = 0
        end = len(data)
        left = _REQUESTS_PER_TURN
        while end - at >= _HEAD and len(queue) < most_owed and left:
            length, api_key, _, correlation_id = _read_head(data, at)
            if length < _MIN_REQUEST or length > largest[api_key]:
                raise bad_length(data, at, length, largest)
            stop = at + 4 + length
            found = handlers.get(api_key)
            if found is None:
                at = self._pass_unread(api_key, correlation_id, stop, end, now_ns)
                continue
            if stop > end:
                break
            left -= 1
            begin, at = at, stop
            passed = self._handle(found, data, begin + 4, stop, now_ns)
            if passed is True:
                continue
            if begin > run:
                out.append(ToUpstream(memoryview(data)[run:begin]))
            run = at
            self._flush_parts(out)
            if isinstance(passed, Running) and self._suspend(
                _HeldRequest(passed, data, begin, stop), data[at:], now_ns, out
            ):
                return
        if at > run:
            out.append(ToUpstream(data if run == 0 and at == end else memoryview(data)[run:at]))
        if at:
            self._last_api = api_key
        if at < end:
            self._put_off(data[at:], now_ns, out, is_turn_over=not left)
        if self.outstanding.finished:
            out.extend(self._answers(now_ns))
            if self._is_full and self._is_drained:  # all were answered here: yield to others
                self._is_full = False
                self._pause(b"", now_ns, out)

    def _put_off(self, rest: bytes, now_ns: int, out: list[Command], *, is_turn_over: bool) -> None:
        """Keep bytes for later: responses are owed, the turn is over, or the frame is partial."""
        if len(self.outstanding.queue) >= self._most_owed:
            self._fill(rest, out)
        elif is_turn_over:
            self._pause(rest, now_ns, out)
        else:
            self._keep(rest, now_ns)

    def _handle(self, handler: Handler, data: bytes, start: int, stop: int, now_ns: int) -> Decided:
        """Pass a request to the handler of its API, if that supports its version."""
        _, api_key, version, _ = _read_head(data, start - 4)
        lowest, highest, _ = READ[api_key]
        if not lowest <= version <= highest:
            return self.handshake.refuse_version(data[start:stop], api_key, version)
        head = parse_request_head(data, start, stop)
        self.connection.client_id = head.client_id
        return handler(data, head, now_ns)

    def _pass_unread(self, api_key: int, correlation_id: int, stop: int, end: int, now_ns: int) -> int:
        """Pass a request that no policy applies to, even if only its start has arrived."""
        if api_key in HIDDEN:
            raise ProtocolError(f"api key {api_key} is not offered through the gateway")
        self._shared.count_unknown(api_key)
        self.outstanding.expect(correlation_id)
        if stop > end:
            self._skip_client = stop - end
            self._frame_ns = now_ns
        return min(stop, end)

    def _keep(self, rest: bytes, now_ns: int) -> None:
        """Keep the start of a frame until the rest arrives."""
        self._frame_ns = now_ns
        need = 4 + _read_head(rest, 0)[0] if len(rest) >= _HEAD else _HEAD
        self._partial_request.begin(rest, need)

    # -- holding ----------------------------------------------------------------------------------

    def _flush_parts(self, out: list[Command]) -> None:
        parts = self.connection.parts
        out.extend(ToUpstream(part) for part in parts)
        parts.clear()

    def _suspend(self, held: _HeldRequest, rest: bytes, now_ns: int, out: list[Command]) -> bool:
        """Stop after a request that must wait; what the client sends meanwhile is read ahead.

        :return: False if it was refused for lack of memory, or its client is closed.
        """
        work = held.work
        if not self._shared.budget.take(len(held.frame)):
            try:
                work.go_on(now_ns, NoRoomError())
            except NoRoomError:  # the protocol has no answer for that
                out.append(Close(*NO_ROOM))
            work.close(now_ns)
            return False
        self._suspended = held
        if rest:
            out.extend(self._read_ahead(rest))
        if isinstance(work.waits, Until):
            self._wake(work.waits.at_ns, out)
        else:
            asked = NextTurn() if work.waits is None else work.waits.question
            self.connection.questions.ask(asked, self._go_on)
        out.extend(self._answers(now_ns))
        return True

    def _pause(self, rest: bytes, now_ns: int, out: list[Command]) -> None:
        """Read the next request after other clients' turns."""
        self._suspend(_HeldRequest(next_turn(now_ns), b"", 0, 0), rest, now_ns, out)

    def _end_suspension(self) -> _HeldRequest | None:
        """Take the held request."""
        held, self._suspended = self._suspended, None
        if held is not None:
            self._shared.budget.give(len(held.frame))
        return held

    def _fill(self, rest: bytes, out: list[Command]) -> None:
        """Stop reading until half of the owed responses are sent."""
        self._is_full = True
        self._shared.count(KafkaEvent.REQUESTS_IN_FLIGHT_FULL)
        out.extend(self._read_ahead(rest))

    def _read_ahead(self, data: bytes) -> list[Command]:
        try:
            self._ahead.keep(data)
        except NoRoomError:
            return [Close(*NO_ROOM)]
        if self._ahead_paused or not (self._is_full or self._ahead.size >= _AHEAD_BYTES):
            return []
        self._ahead_paused = True
        return [PauseReading()]

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """A held request or response may be due."""
        self._wake_ns = 0
        out: list[Command] = []
        if client_gone:
            return [Close(SessionClose.CLIENT_GONE)]
        held = self._suspended
        if held is not None and isinstance(held.work.waits, Until):
            if held.work.waits.at_ns <= now_ns:
                self._go_on(now_ns, out)
            else:
                self._wake(held.work.waits.at_ns, out)
        out.extend(self._answers(now_ns))
        self._resume_if_drained(now_ns, out)
        return close_last(out)

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """Resume a held request with its answer; an exception if there is none."""
        out: list[Command] = []
        if isinstance(answer, Exception) and isinstance(question, ListGroups):
            self._shared.listing.learned(None, now_ns, now_ns)
        for resume in self.connection.questions.answered(question):
            resume(now_ns, out)
            # What it injected is expected before what the next one forwards.
            out.extend(self.connection.asked(mid_request=self._skip_client > 0))
        out.extend(self._answers(now_ns))
        self._resume_if_drained(now_ns, out)
        return close_last(out)

    def _go_on(self, now_ns: int, out: list[Command]) -> None:
        """Go on with the held request."""
        held = self._end_suspension()
        if held is None:
            return
        try:
            passed = held.work.go_on(now_ns)
        except ProtocolError as error:
            out.append(Close(KafkaClose.MALFORMED_REQUEST, f"{error} from {self.client}"))
            return
        self._flush_parts(out)
        if isinstance(passed, Running):
            if self._suspend(held, b"", now_ns, out):
                return
        elif passed:
            out.append(ToUpstream(memoryview(held.frame)[held.begin : held.stop]))
        self._resume(now_ns, out)

    def _resume(self, now_ns: int, out: list[Command]) -> None:
        """Resume with the bytes read ahead."""
        self._is_full = False
        if self._ahead.size:
            backlog = self._ahead.all()
            out.extend(as_commands(ToUpstream, backlog, self.receive_client(backlog, now_ns)))
        if self._ahead_paused and self._suspended is None and not self._is_full:
            self._ahead_paused = False
            out.append(ResumeReading())

    def _wake(self, at_ns: int, out: list[Command]) -> None:
        """Request the earliest wake-up that is needed."""
        if self._wake_ns == 0 or at_ns < self._wake_ns:
            self._wake_ns = at_ns
            out.append(WakeAt(at_ns))

    def _answers(self, now_ns: int) -> list[Command]:
        """Responses whose turn and time have come; none while another is sent in pieces."""
        connection, outstanding = self.connection, self.outstanding
        out: list[Command] = []
        if connection.injected or connection.questions.new:
            out += connection.asked(mid_request=self._skip_client > 0)
        if self._skip_upstream or not outstanding.finished:
            return out
        out += outstanding.release(now_ns)
        due = outstanding.due_ns
        if due is not None:
            self._wake(due, out)
        return out

    # -- the end ----------------------------------------------------------------------------------

    def ending(self, now_ns: int) -> Sequence[Command]:
        """Close between requests: clients find the broker again by Metadata."""
        self._partial_request.drop()
        is_busy = self._suspended or self.outstanding.queue or self._skip_upstream
        return () if is_busy else [Close()]

    def closed(self, now_ns: int) -> None:
        """The connection is closed: release everything that it held or counted for."""
        at_once(self.parting(now_ns))

    def parting(self, now_ns: int) -> Slices[None]:
        """The same in slices."""
        if (held := self._end_suspension()) is not None:
            held.work.close(now_ns)
        for late in tuple(self.connection.late):
            late.close(now_ns)
        self._give_up_reading()
        self._partial_request.drop()
        self._partial_response.drop()
        self._ahead.drop()
        self.outstanding.drop()
        self._shared.releases.pop(self.connection, None)
        yield from self.producing.parting(now_ns)
        yield from self.fetching.parting(now_ns)
        yield from self.grouping.parting()
