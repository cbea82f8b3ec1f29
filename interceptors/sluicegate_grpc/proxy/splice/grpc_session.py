"""One gRPC client connection: two directions of HTTP/2 frames, and their handlers.

Rules of this file: no IO, no clock, no policy; the handlers know what a frame means.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sluicegate.broker import (
    PASS,
    Ask,
    BaseSession,
    Close,
    Command,
    Dial,
    ToClient,
    ToUpstream,
    WakeAt,
)
from sluicegate.model import ConnectionClose, SessionClose
from sluicegate.sessions.pieces import NO_ROOM, NoRoomError
from sluicegate.sessions.work import TURN
from sluicegate_grpc.events import GrpcClose, GrpcEvent
from sluicegate_grpc.proxy.splice.absent import Absent
from sluicegate_grpc.proxy.splice.answers import Answers
from sluicegate_grpc.proxy.splice.broker_side import BrokerSide
from sluicegate_grpc.proxy.splice.calling import Calling
from sluicegate_grpc.proxy.splice.client_side import ClientSide
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.ended_calls import Refusals
from sluicegate_grpc.proxy.splice.floods import Flood
from sluicegate_grpc.proxy.splice.frame_stream import FrameStream
from sluicegate_grpc.proxy.splice.frames import PREFACE, ErrorCode, WireError, goaway
from sluicegate_grpc.proxy.splice.greeting import Opening
from sluicegate_grpc.proxy.splice.settings import greeting
from sluicegate_grpc.proxy.splice.shared import Address, Shared
from sluicegate_grpc.semantics.status import UNAVAILABLE, Refusal

_STAND_IN_NS = 1_000_000_000
_REOPENING_NS = 50_000_000
"""How long clients may take to open a stream of messages again; the first backoff that follows is longer."""
_ENDS = Refusal(UNAVAILABLE, "The gateway ends; connect again.")


class GrpcSession(BaseSession):
    """One client connection and its upstream connection, without their sockets.

    :param shared: the front's state.
    :param peer: the client's address, `host:port`.
    :param addresses: brokers to connect to, tried one after the other; empty if the relay has connected
        already, as it does for a listener with an `upstream`.
    :param routes: True if the first request may name the broker (`MethodMap.route_header`): nothing is
        dialled before it has come.
    :param stand_ins: brokers that answer if the only one is unreachable: their lookups name the new owners of
        its topics. A second later the client must reconnect, as that broker may be back.
    """

    __slots__ = (
        "_absent",
        "_addresses",
        "_answers",
        "_calling",
        "_client",
        "_closing",
        "_connection",
        "_dialling",
        "_down",
        "_gates",
        "_has_dialled",
        "_holding",
        "_is_greeted",
        "_is_open",
        "_opening",
        "_policy_changes",
        "_preface",
        "_preface_ns",
        "_routes",
        "_shared",
        "_stand_ins",
        "_stands_in",
        "_up",
    )

    def __init__(
        self,
        shared: Shared,
        peer: str,
        addresses: tuple[Address, ...] = (),
        *,
        routes: bool = False,
        stand_ins: tuple[Address, ...] = (),
    ) -> None:
        self._shared = shared
        self._gates = shared.services.gates
        self._policy_changes = self._gates.changes
        """The number of policy changes that this session has applied."""
        self._connection = connection = Connection(shared, peer)
        self._up = connection.up
        self._down = connection.down
        self._answers = Answers(connection)
        refusals = Refusals(connection)
        empty = Flood(GrpcClose.EMPTY_FRAMES_FLOOD, shared.limits.empty_frames)
        self._calling = Calling(connection, self._answers, refusals, empty)
        self._answers.break_off = self._calling.break_off
        self._holding = self._calling.holding
        self._client = ClientSide(connection, self._calling, self._answers, refusals, empty)
        broker = BrokerSide(connection, self._calling, self._answers, refusals)
        self._client.broker, broker.client = broker, self._client
        self._addresses = addresses
        self._stand_ins = stand_ins
        self._stands_in = False
        self._routes = routes and bool(shared.methods.route_header)
        self._opening = Opening(shared.services.budget, shared.limits) if addresses else None
        self._absent: Absent | None = None
        """Answers in place of a broker that cannot be connected."""
        self._dialling = self._has_dialled = False
        self._preface = b""
        """The client's preface, as far as it has come."""
        self._preface_ns = 0
        """When it began to come."""
        self._closing: Close | None = None
        self._is_open = False
        """True once the client speaks HTTP/2 and its broker is connected."""
        self._is_greeted = False
        """True once the client has had SETTINGS."""
        shared.sessions += 1

    @property
    def held_bytes(self) -> int:
        """Bytes kept for this connection."""
        early = self._opening.held_bytes if self._opening is not None else 0
        early += self._absent.held_bytes if self._absent is not None else 0
        return early + self._up.held_bytes + self._down.held_bytes + self._connection.streams.held_bytes

    @property
    def open_calls(self) -> int:
        """Calls that the broker has yet to answer; streams of messages do not count."""
        return len(self._connection.streams.ids) - self._answers.deliveries

    @property
    def frame_began_ns(self) -> int:
        """When the client's current partial frame began; 0 if there is none."""
        return self._up.frame_began_ns if len(self._preface) == len(PREFACE) else self._preface_ns

    @property
    def is_logged_in(self) -> bool:
        """True once the client is known to speak HTTP/2, and its first frames have gone to the broker."""
        return self._is_open or self._absent is not None

    @property
    def client(self) -> str:
        """The peer's address."""
        return self._connection.peer

    # -- what the relay calls -------------------------------------------------------------------------

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the client."""
        # <hot> Runs for every read.
        if not self._is_open:
            if self._absent is not None:
                return self._absent.receive(data)
            self._guarded(partial(self._opened, data), now_ns)
            return self._finish(now_ns)
        try:
            self._walk_up(data, now_ns)
        except (WireError, NoRoomError) as error:
            self._broken(error)
        return PASS if self._all_passed(self._up, data) else self._finish(now_ns, up=data)

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the broker."""
        # <hot> Runs for every read.
        if self._closing is not None:
            return ()
        try:
            self._walk_down(data, now_ns)
        except (WireError, NoRoomError) as error:
            self._broken(error)
        return PASS if self._all_passed(self._down, data) else self._finish(now_ns, down=data)

    def _all_passed(self, frames: FrameStream, data: bytes) -> bool:
        """Whether these bytes pass unchanged and there is nothing else to do, which is nearly always so."""
        passed = (
            self._closing is None
            and not self._answers.ready
            and not self._connection.timers.has_new
            and not self._connection.questions.new
            and frames.is_untouched(data)
            and frames.back.is_untouched(b"")
        )
        if passed:
            frames.done()
        return passed

    def stands_in(self) -> None:
        """Another broker answers in place of the one that was asked for."""
        self._stands_in = True
        self._shared.count(GrpcEvent.STOOD_IN)

    def dialled(self, now_ns: int) -> Sequence[Command]:
        """The broker is connected: forward what the client has sent so far."""
        opening, self._opening = self._opening, None
        if opening is None:
            return ()
        self._is_open = True
        data = opening.take()
        self._up.insert(data[: len(PREFACE)])
        self._guarded(partial(self._walk_up, data[len(PREFACE) :]), now_ns)
        if self._stands_in:
            self._connection.timers.at(now_ns + _STAND_IN_NS, self._try_again)
        return self._finish(now_ns)

    def _try_again(self, now_ns: int) -> None:
        """Have the client reconnect, which may lead to the broker that it wants."""
        self._client.goes_away("the broker may be back")

    def undialled(self, reason: str, now_ns: int) -> Sequence[Command]:
        """The broker is unreachable: fail the client's requests, then close it."""
        opening, self._opening = self._opening, None
        if opening is None:
            return [Close(ConnectionClose.UPSTREAM_UNREACHABLE, reason)]
        text = f"{self._shared.broker} cannot be reached: {reason}"
        self._absent = Absent(text, self._shared.limits, is_greeted=self._is_greeted)
        return self._absent.begin(opening.take()[len(PREFACE) :], now_ns)

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """Process what is due."""
        if client_gone:
            return [Close(SessionClose.CLIENT_GONE)]
        if self._absent is not None:
            return self._absent.wake(now_ns)
        self._follow_policies()
        self._guarded(self._run_due, now_ns)
        return self._finish(now_ns)

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """Handle the front's answer; an exception if it has none."""
        self._follow_policies()
        self._guarded(partial(self._connection.answered, question, answer), now_ns)
        return self._finish(now_ns)

    @property
    def reads_while_ending(self) -> bool:
        """Calls that are under way need the client's windows and data; new ones are made elsewhere."""
        return self._is_open

    def ending(self, now_ns: int) -> Sequence[Command]:
        """Send GOAWAY, then close once no call is left to answer.

        Streams of messages have no end of their own: they end with UNAVAILABLE. Their clients open them again
        at once, and some take it for final if that meets GOAWAY or the closing connection (tonic 0.14:
        CANCELLED). So new requests are refused with UNAVAILABLE for a while before.
        """
        if self._closing is not None:
            return ()
        if not self._is_open:
            return () if self._has_dialled or self._absent is not None else [Close()]
        if self._answers.deliveries:
            self._client.refuse_new(_ENDS, now_ns + _REOPENING_NS)
            self._answers.end_deliveries(_ENDS, now_ns)
        refuses_until_ns = self._client.refuses_until_ns
        if refuses_until_ns and (now_ns < refuses_until_ns or self.open_calls):
            return self._finish(now_ns)
        self._client.goes_away("the gateway ends")
        out = list(self._finish(now_ns))
        return out if self.open_calls else [*out, Close()]

    def closed(self, now_ns: int) -> None:
        """The connection is closed: release everything that it held or counted for."""
        for _ in self.parting(now_ns):
            pass

    def parting(self, now_ns: int) -> Iterator[None]:
        """The same in slices."""
        self._holding.closed(now_ns)
        self._answers.closed(now_ns)
        if self._opening is not None:
            self._opening.take()
        self._absent = None
        self._shared.sessions -= 1
        yield from self._connection.parting(now_ns)

    # -- the beginning ----------------------------------------------------------------------------------

    def _opened(self, data: bytes, now_ns: int) -> None:
        """Handle bytes of a client before its HTTP/2 preface or its broker's connection."""
        lacks = len(PREFACE) - len(self._preface)
        if lacks:
            self._preface_ns = self._preface_ns or now_ns
            self._preface += data[:lacks]
            if not PREFACE.startswith(self._preface):
                text = "not HTTP/2 with prior knowledge; does the client have to use TLS?"
                raise WireError(ErrorCode.PROTOCOL_ERROR, GrpcClose.NOT_HTTP2, text)
        opening = self._opening
        if opening is not None:
            opening.keep(data)
            self._dial(opening)
            return
        if lacks <= len(data):
            self._is_open = True
        self._up.insert(data[:lacks])
        self._walk_up(data[lacks:], now_ns)

    def _dial(self, opening: Opening) -> None:
        """Connect to the broker as soon as it is known."""
        if self._has_dialled or len(self._preface) < len(PREFACE):
            return
        if self._routes:
            if not self._is_greeted:  # clients wait for SETTINGS before they ask for anything
                self._down.insert(self._greeting())
            headers = opening.first_request()
            if headers is None:
                return
            broker = headers.get(self._shared.methods.route_header, "")
            self._addresses = (self._shared.route(broker) if broker else None) or self._addresses
            self._client.bound = self._addresses
        self._has_dialled = self._dialling = True

    # -- making commands ------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[int], None], now_ns: int) -> None:
        if self._closing is not None:
            return
        try:
            work(now_ns)
        except (WireError, NoRoomError) as error:
            self._broken(error)

    def _broken(self, error: WireError | NoRoomError) -> None:
        """A peer has broken the protocol, or the budget is used up: end the connection."""
        self._is_open = False
        last = self._connection.last_stream(self._holding.highest)
        if isinstance(error, WireError):
            self._down.insert(goaway(last, error.code, str(error)))
            self._closing = Close(error.counter, f"{error} from or for {self.client}")
        else:
            self._down.insert(goaway(last, ErrorCode.ENHANCE_YOUR_CALM, "out of buffer memory"))
            self._closing = Close(*NO_ROOM)

    def _follow_policies(self) -> None:
        """Apply the current policies if they have changed."""
        if self._policy_changes != self._gates.changes:
            self._policy_changes = self._gates.changes
            self._connection.policies_changed()

    def _walk_up(self, data: bytes, now_ns: int) -> None:
        if self._policy_changes != self._gates.changes:
            self._follow_policies()
        if self._up.walk(data, now_ns):
            self._connection.wait(TURN, partial(self._resume, self._up, self._walk_up))
        holding = self._holding
        if holding.marks or holding.calls:
            holding.settle(self._up.data, now_ns)

    def _walk_down(self, data: bytes, now_ns: int) -> None:
        if self._policy_changes != self._gates.changes:
            self._follow_policies()
        if self._down.walk(data, now_ns):
            self._connection.wait(TURN, partial(self._resume, self._down, self._walk_down))
        streams = self._connection.streams
        if len(streams.ids) < streams.floor:
            streams.shrink()

    @staticmethod
    def _resume(
        frames: FrameStream, walk: Callable[[bytes, int], None], now_ns: int, answer: object = None
    ) -> None:
        frames.resume()
        walk(b"", now_ns)

    def _run_due(self, now_ns: int) -> None:
        self._connection.timers.run_due(now_ns)
        self._holding.settle(b"", now_ns)

    def _finish(self, now_ns: int, up: bytes | None = None, down: bytes | None = None) -> Sequence[Command]:
        """Add the handlers' pending work: bytes for either side, questions, wake-ups, the end."""
        # <hot> Runs for every read, of which nearly all pass unchanged.
        connection = self._connection
        if self._answers.ready:
            self._answers.go_on(now_ns)
        self._up.settle()
        self._down.settle()
        parts, answers = self._up.take(up), self._down.take(down)
        out: list[Command] = []
        if parts:
            out.extend(map(ToUpstream, parts))
        if answers:
            if not self._is_greeted and (own := self._greeting()):
                answers.insert(0, own)
            out.extend(map(ToClient, answers))
        timers = connection.timers
        if (timers or timers.has_new) and (wake_up_ns := timers.wake_up_ns()) is not None:
            out.append(WakeAt(wake_up_ns))
        if connection.questions.new or self._dialling or self._closing is not None:
            self._rest(out)
        if parts is not None and answers is not None:
            return out
        if not out:
            return PASS
        whole: Command = ToUpstream(up) if up is not None else ToClient(down or b"")
        return [whole, *out]

    def _greeting(self) -> bytes:
        """What precedes the first frame: SETTINGS, if the broker's have not arrived.

        The broker's SETTINGS follow; only their acknowledgement is forwarded to the broker.
        """
        self._is_greeted = True
        if self._client.broker.had_settings:
            return b""
        self._client.discards_ack = True
        return greeting(self._shared.limits)

    def _rest(self, out: list[Command]) -> None:
        connection = self._connection
        if connection.questions.new:
            out.extend(map(Ask, connection.questions.new))
            connection.questions.new.clear()
        if self._dialling:
            self._dialling = False
            out.append(Dial(self._addresses + self._stand_ins, in_order=bool(self._stand_ins)))
        if self._closing is not None:
            out.append(self._closing)
