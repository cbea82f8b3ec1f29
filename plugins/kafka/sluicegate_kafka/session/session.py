"""One Kafka client connection: passes its bytes to its two sides, and collects their commands.

Rules of this file: no IO, no clock, no policy.
"""

from collections.abc import Sequence

from sluicegate.broker import (
    PASS,
    Ask,
    BaseSession,
    Close,
    Command,
    PauseReading,
    ResumeReading,
    WakeAt,
)
from sluicegate.model import SessionClose
from sluicegate.sessions.work import TURN
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.slices import Slices, at_once
from sluicegate_kafka.session.addressing import Addressing
from sluicegate_kafka.session.creating import Creating
from sluicegate_kafka.session.fetching.fetching import Fetching
from sluicegate_kafka.session.groups.grouping import Grouping
from sluicegate_kafka.session.handshake import Handshake
from sluicegate_kafka.session.producing.producing import Producing
from sluicegate_kafka.session.request_stream import RequestStream
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.states import Event, State
from sluicegate_kafka.session.response_stream import (
    MIN_RESPONSE,
    RESPONSE_HEAD,
    ResponseStream,
    read_response,
)
from sluicegate_kafka.session.shared.listing import ListGroups
from sluicegate_kafka.session.shared.shared import Shared

_AHEAD_BYTES = 256 * 1024
"""Bytes that are read ahead, so that a client that hangs up is noticed."""


class KafkaSession(BaseSession):
    """One client connection and its upstream connection, without their sockets."""

    __slots__ = (
        "_broker_is_between",
        "_client_is_between",
        "_is_paused",
        "_outstanding",
        "_requests",
        "_responses",
        "_shared",
        "_wake_ns",
        "connection",
        "fetching",
        "grouping",
        "producing",
    )

    def __init__(self, shared: Shared, peer: str, node: str = "", now_ns: int = 0) -> None:
        self._shared = shared
        most_owed = shared.limits.max_requests_in_flight
        self.connection = connection = Connection(peer, node, shared.budget, most_owed, shared.counts)
        self._outstanding = connection.outstanding
        handshake = Handshake(shared, connection)
        self.producing = Producing(shared, connection)
        self.grouping = Grouping(shared, connection)
        self.fetching = Fetching(shared, connection)
        addressing = Addressing(shared)
        shared.releases[connection] = (self.producing.release_idle, self.fetching.reading.release_idle)
        handlers = {
            ApiKey.PRODUCE: self.producing.request,
            ApiKey.FETCH: self.fetching.request,
            **self.grouping.handlers,
            **handshake.handlers,
            **addressing.handlers,
            **Creating(shared, connection, addressing).handlers,
        }
        self._requests = RequestStream(shared, connection, self.producing, handshake, handlers, now_ns)
        self._responses = ResponseStream(shared, connection)
        self._client_is_between = self._broker_is_between = True
        """Whether the next bytes begin a frame that can be read at once; for the fast paths."""
        self._is_paused = False
        """Whether the client is not read from."""
        self._wake_ns = 0

    # -- what the gateway reads --------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        """Bytes kept for this connection."""
        kept = self._requests.inflow.held_bytes + self._responses.inflow.held_bytes
        return kept + self.producing.reading.measuring.nbytes + self._outstanding.held_bytes

    @property
    def places_bytes(self) -> int:
        """About how much memory its places on topics take."""
        fetching = self.fetching.reading.places_bytes
        return self.producing.places_bytes + fetching + self.grouping.places_bytes

    @property
    def frame_began_ns(self) -> int:
        """When the current partial request began; 0 if there is none."""
        return self._requests.frame_began_ns

    @property
    def is_logged_in(self) -> bool:
        """True once a whole request has arrived, and a login that the client began was accepted."""
        return self.connection.state not in (State.NEW, State.UNAUTHENTICATED)

    @property
    def principal(self) -> str:
        """The principal that the broker has accepted."""
        return self.connection.principal

    @property
    def client(self) -> str:
        """Client id and peer address."""
        return self.connection.client

    @property
    def unread_bytes(self) -> int:
        """How many of the broker's next bytes pass unread."""
        return self._responses.inflow.unread

    @property
    def unread_request_bytes(self) -> int:
        """How many of the client's next bytes pass unread."""
        return self._requests.inflow.unread

    # -- bytes -------------------------------------------------------------------------------------

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the client: forward what passes, in runs; hold what must wait."""
        # <hot> These lines are the way of nearly every Produce request.
        at = 0
        repeated = self.producing.repeated
        if repeated is not None and self._client_is_between:
            at = repeated.again(data, 0, len(data), now_ns)
            if at == len(data):
                return PASS
        inflow = self._requests.inflow
        if len(data) < inflow.unread:
            inflow.passes(-len(data))
            return PASS
        inflow.receive(data, at, now_ns)
        return self._commands(now_ns, has_read=True)

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the broker: forward what passes, in runs; collect responses that are needed whole."""
        # <hot> The way of nearly every response: it is the next one owed, and it passes unread.
        at = 0
        if self._broker_is_between:
            queue = self._outstanding.queue
            end = len(data)
            while end - at >= RESPONSE_HEAD and queue:
                length, correlation_id = read_response(data, at)
                head = queue[0]
                if type(head) is tuple:
                    if head[0] != correlation_id or head[1].plain_length != length:
                        break
                elif head != correlation_id or length < MIN_RESPONSE:
                    break
                queue.popleft()
                at += 4 + length
            if at > end:
                self._responses.inflow.passes(at - end)
                self._broker_is_between = False
                at = end
            if at == end and not self._outstanding.finished:
                return PASS
        elif len(data) < self._responses.inflow.unread:
            self._responses.inflow.passes(-len(data))
            return PASS
        self._responses.inflow.receive(data, at, now_ns)
        return self._commands(now_ns)

    def passed(self, count: int, now_ns: int) -> Sequence[Command]:
        """Count bytes that were sent to the client."""
        self._responses.inflow.passes(-count)
        return self._commands(now_ns)

    def request_passed(self, count: int, now_ns: int) -> Sequence[Command]:
        """Count bytes that were sent to the broker."""
        self._requests.inflow.passes(-count)
        return self._commands(now_ns)

    # -- what the session asked for ----------------------------------------------------------------

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """Work or a response may be due."""
        self._wake_ns = 0
        if client_gone:
            return [Close(SessionClose.CLIENT_GONE)]
        due = self.connection.due
        now_due = [resume for at_ns, resume in due if at_ns <= now_ns]
        due[:] = [each for each in due if each[0] > now_ns]
        for resume in now_due:
            resume(now_ns, None)
        return self._commands(now_ns)

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """Resume what waits for the answer; an exception if there is none."""
        if isinstance(question, ListGroups):
            if isinstance(answer, Exception):
                self._shared.learned.listing.learned(None, now_ns, now_ns)
            answer = None  # all that is known of groups is in the listing
        for resume in self.connection.questions.answered(question):
            resume(now_ns, answer)
            # What it injected is expected before what the next one forwards.
            if not self._requests.inflow.unread:
                self.connection.output.flush_injected()
        return self._commands(now_ns)

    def _commands(self, now_ns: int, *, has_read: bool = False) -> Sequence[Command]:
        """What is to be done now, behind all that the sides have left.

        :param has_read: whether requests were read: then no more are in this turn.
        """
        client, broker = self._requests.inflow, self._responses.inflow
        connection, outstanding = self.connection, self._outstanding
        output = connection.output
        if output.injected and not client.unread:
            output.flush_injected()
        if outstanding.finished and not broker.unread:
            output.commands.extend(outstanding.release(now_ns))
        if outstanding.on_half is not None and (resume := outstanding.half_sent()) is not None:
            if not has_read:
                resume(now_ns, None)
                return self._commands(now_ns, has_read=True)
            connection.wait(TURN, resume)
        self._client_is_between = client.task is None and not (client.unread or client.pieces.size)
        # While work waits for half of the responses, each one counts.
        is_full = outstanding.on_half is not None
        self._broker_is_between = broker.task is None and not (broker.unread or broker.pieces.size or is_full)
        out = output.commands[:]
        output.commands.clear()
        must_pause = client.task is not None and (is_full or client.pieces.size >= _AHEAD_BYTES)
        if must_pause != self._is_paused:
            self._is_paused = must_pause
            out.append(PauseReading() if must_pause else ResumeReading())
        if connection.due or outstanding.finished:
            self._wake_up(out)
        if connection.questions.new:
            out.extend(map(Ask, connection.questions.new))
            connection.questions.new.clear()
        if output.closing is not None:
            out.append(output.closing)
        return out

    def _wake_up(self, out: list[Command]) -> None:
        """Ask for the earliest wake-up that is needed."""
        due = [at_ns for at_ns, _ in self.connection.due]
        if self._outstanding.finished and (response_ns := self._outstanding.due_ns) is not None:
            due.append(response_ns)
        if due and (self._wake_ns == 0 or min(due) < self._wake_ns):
            self._wake_ns = min(due)
            out.append(WakeAt(self._wake_ns))

    # -- the end ----------------------------------------------------------------------------------

    def ending(self, now_ns: int) -> Sequence[Command]:
        """Close between requests: clients find the broker again by Metadata."""
        self.connection.happened(Event.ENDING)
        inflow = self._requests.inflow
        inflow.drop_partial()
        # The last one is owed for a request that has not come whole: its client sends it again elsewhere.
        is_owed = len(self._outstanding.queue) > bool(inflow.unread)
        is_busy = inflow.task is not None or is_owed or self._responses.inflow.unread
        return () if is_busy else [Close()]

    def closed(self, now_ns: int) -> None:
        """The connection is closed: release everything that it took or counted for."""
        at_once(self.parting(now_ns))

    def parting(self, now_ns: int) -> Slices[None]:
        """The same in slices."""
        self.connection.happened(Event.CLOSED)
        self._requests.inflow.close(now_ns)
        self._responses.inflow.close(now_ns)
        self._outstanding.drop(now_ns)
        self._shared.releases.pop(self.connection, None)
        yield from self.producing.parting(now_ns)
        yield from self.fetching.parting(now_ns)
        yield from self.grouping.parting()
