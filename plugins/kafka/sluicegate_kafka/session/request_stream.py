"""The client's bytes of one connection: split into requests, each of which goes to the handler of its API.

Rules of this file: no IO, no clock, no policy. It knows frames, their order, and the handler of each API;
`producing`, `fetching` and `groups` know what a Produce, Fetch or group request means.
"""

from collections.abc import Mapping
from functools import partial
from struct import Struct

from sluicegate.broker import ToUpstream
from sluicegate.sessions.work import TURN, Running
from sluicegate_kafka.codec.api_keys import HIDDEN, READ, ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.request_sizes import bad_length
from sluicegate_kafka.events import KafkaClose, KafkaEvent
from sluicegate_kafka.session.handshake import Handshake
from sluicegate_kafka.session.producing.foretelling import LARGE, START_BYTES
from sluicegate_kafka.session.producing.producing import Producing
from sluicegate_kafka.session.requests.connection import HALF_SENT, Connection, Inflow
from sluicegate_kafka.session.requests.outcomes import Answer, Decided, Handler, Later, Pass
from sluicegate_kafka.session.requests.states import Event, State
from sluicegate_kafka.session.shared.shared import Shared

_read_head = Struct(">ihhi").unpack_from
"""Length, api key, api version, correlation id: what every request starts with."""
_HEAD = 12
_MIN_REQUEST = 8
_REQUESTS_PER_TURN = 25
"""Requests read in one turn of the event loop: requests without a response, and those that the gateway
answers itself, are not bounded by what is in flight. A Produce takes 5 us, or 150 us if the gate of its topic
has to be compiled; a join that is refused takes 70 us."""
_OPENING = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""What a client sends before the broker has accepted its login."""


class RequestStream:
    """The client-to-broker direction of a connection.

    :param shared: the front's state.
    :param connection: the client's connection.
    :param producing: has the fast path of repeated requests.
    :param handshake: answers what is not supported.
    :param handlers: by API key; other requests pass unread.
    :param now_ns: monotonic time.
    """

    __slots__ = (
        "_connection",
        "_frame_ns",
        "_handlers",
        "_handshake",
        "_heard_ns",
        "_producing",
        "_shared",
        "inflow",
    )

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        producing: Producing,
        handshake: Handshake,
        handlers: Mapping[int, Handler],
        now_ns: int,
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._producing = producing
        self._handshake = handshake
        self._handlers = handlers
        malformed = KafkaClose.MALFORMED_REQUEST
        self.inflow = Inflow(connection, shared.budget, ToUpstream, self._read, malformed)
        self._frame_ns = 0
        self._heard_ns = now_ns
        """When the client last sent something other than a request like the one before."""
        connection.heard_by(lambda: max(self._heard_ns, producing.produced_ns))

    @property
    def frame_began_ns(self) -> int:
        """When the current partial request began; 0 if there is none."""
        inflow = self.inflow
        is_partial = inflow.unread > 0 or (inflow.task is None and inflow.pieces.size > 0)
        return self._frame_ns if is_partial else 0

    def _read(self, data: bytes, at: int, now_ns: int) -> None:
        self._heard_ns = now_ns
        if self._connection.output.injected:  # no request is in the midst of its bytes
            self._connection.output.flush_injected()
        at = at if at >= 0 else self._producing.repeat(data, now_ns)
        if at < len(data):
            self._requests(data, at, now_ns)
        else:
            self._connection.output.commands.append(ToUpstream(data))

    def _requests(self, data: bytes, at: int, now_ns: int) -> None:  # noqa: C901 - one loop
        """Walk the whole frames in `data` from `at`; `run` is where the bytes not yet forwarded begin."""
        handlers, largest = self._handlers, self._shared.limits.request_sizes
        outstanding, out = self._connection.outstanding, self._connection.output.commands
        queue, most_owed = outstanding.queue, outstanding.most
        api_key = run = 0
        end = len(data)
        left = _REQUESTS_PER_TURN
        while end - at >= _HEAD and len(queue) < most_owed and left:
            length, api_key, _, correlation_id = _read_head(data, at)
            if length < _MIN_REQUEST or length > largest[api_key]:
                raise bad_length(data, at, length, largest)
            stop = at + 4 + length
            handler = handlers.get(api_key)
            if handler is None:
                at = self._pass_unread(api_key, correlation_id, stop, end, now_ns)
                continue
            if stop > end:
                if length > LARGE and api_key == ApiKey.PRODUCE and self._passes(data, at, stop, now_ns):
                    at = end
                break
            left -= 1
            begin, at = at, stop
            before = len(out)
            decided = self._handle(handler, data, begin, stop, now_ns)
            if type(decided) is Pass:
                if decided.owed is not None:
                    queue.append(decided.owed)
                continue
            # What goes upstream in its place comes behind the requests before it.
            if begin > run:
                out.insert(before, ToUpstream(memoryview(data)[run:begin]))
            run = at
            if self._connection.output.closing is not None:
                return  # nothing behind it may overtake it, as its client sends both again
            if isinstance(decided, Running):
                break
        if at > run:
            out.append(ToUpstream(data if run == 0 and at == end else memoryview(data)[run:at]))
        if at and self._connection.state is not State.OPEN:
            self._connection.happened(Event.OPENING if api_key in _OPENING else Event.REQUEST)
        if at < end:
            self._put_off(data[at:], now_ns, is_turn_over=not left)

    def _put_off(self, rest: bytes, now_ns: int, *, is_turn_over: bool) -> None:
        """Keep bytes: work waits, responses are owed, the turn is over, or the frame is partial."""
        if self.inflow.task is not None:
            self.inflow.pieces.keep(rest)
        elif len(self._connection.outstanding) >= self._connection.outstanding.most:
            self._shared.count(KafkaEvent.REQUESTS_IN_FLIGHT_FULL)
            self.inflow.pause(rest, HALF_SENT, now_ns)
        elif is_turn_over:
            self.inflow.pause(rest, TURN, now_ns)
        else:
            self._frame_ns = now_ns
            self.inflow.pieces.begin(rest, _need(rest))

    def _pass_unread(self, api_key: int, correlation_id: int, stop: int, end: int, now_ns: int) -> int:
        """Pass a request that no policy applies to, even if only its start has arrived."""
        if api_key in HIDDEN:
            raise ProtocolError(f"api key {api_key} is not offered through the gateway")
        self._shared.count_unknown(api_key)
        self._connection.outstanding.queue.append(correlation_id)
        if stop > end:
            self.inflow.passes(stop - end)
            self._frame_ns = now_ns
        return min(stop, end)

    def _passes(self, data: bytes, begin: int, stop: int, now_ns: int) -> bool:
        """Whether a large Produce request passes by what has arrived of it, and the rest unread."""
        _, api_key, version, _ = _read_head(data, begin)
        lowest, highest, _ = READ[api_key]
        if not lowest <= version <= highest:
            return False
        try:
            head = parse_request_head(data, begin + 4, stop)
        except ProtocolError:  # or the end of its header is missing
            return False
        owed = self._producing.foretelling.passes(data, head, now_ns)
        if owed is None:
            return False
        self._connection.outstanding.queue.append(owed)
        self.inflow.passes(stop - len(data))
        self._frame_ns = now_ns
        return True

    def _handle(
        self, handler: Handler, data: bytes, begin: int, stop: int, now_ns: int
    ) -> Decided | Running[Decided]:
        """Pass a request to the handler of its API, if that supports its version, and begin its work."""
        _, api_key, version, _ = _read_head(data, begin)
        lowest, highest, _ = READ[api_key]
        decided: Decided | Later[Decided] | Running[Decided]
        if lowest <= version <= highest:
            head = parse_request_head(data, begin + 4, stop)
            if head.client_id != self._connection.client_id:
                self._connection.names_itself(head.client_id)
                self._producing.forget_repeated()
            decided = handler(data, head, now_ns)
        else:
            decided = self._handshake.refuse_version(data[begin + 4 : stop], api_key, version)
        if callable(decided):
            done = partial(self._done, data, begin, stop)
            decided = self.inflow.begin(decided, data, done, now_ns)
        if type(decided) is not Pass:
            if self._connection.output.injected:
                self._connection.output.flush_injected()
            if isinstance(decided, Answer):
                self._connection.outstanding.answer(decided.response)
        return decided

    def _done(self, data: bytes, begin: int, stop: int, decided: Decided, now_ns: int) -> None:
        """The work on a request is done."""
        if self._connection.output.injected:
            self._connection.output.flush_injected()
        if isinstance(decided, Pass):
            if decided.owed is not None:
                self._connection.outstanding.queue.append(decided.owed)
            self._connection.output.commands.append(ToUpstream(memoryview(data)[begin:stop]))
        elif isinstance(decided, Answer):
            self._connection.outstanding.answer(decided.response)


def _need(rest: bytes) -> int:
    """Bytes of the partial request at the start of these that are needed to go on."""
    if len(rest) < _HEAD:
        return _HEAD
    length, api_key, _, _ = _read_head(rest, 0)
    is_start = api_key == ApiKey.PRODUCE and length > LARGE and len(rest) < START_BYTES
    return START_BYTES if is_start else 4 + length
