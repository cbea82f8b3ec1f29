"""One gRPC client connection: two directions of HTTP/2 frames, and their handlers.

Rules of this file: no IO, no clock, no policy; the handlers know what a frame means.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sluicegate.broker import PASS, Ask, BaseSession, Close, Command, Dial, ToClient, ToUpstream, WakeAt
from sluicegate.model import ConnectionClose, SessionClose
from sluicegate.sessions.pieces import NO_ROOM, NoRoomError
from sluicegate.sessions.work import TURN
from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.splice.broker_side import BrokerSide
from sluicegate_grpc.proxy.splice.calling import Calling
from sluicegate_grpc.proxy.splice.client_side import ClientSide
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.ended_calls import Refusals
from sluicegate_grpc.proxy.splice.floods import ControlFloods
from sluicegate_grpc.proxy.splice.frame_stream import FrameStream
from sluicegate_grpc.proxy.splice.frames import PREFACE, ErrorCode, WireError, goaway
from sluicegate_grpc.proxy.splice.greeting import Opening
from sluicegate_grpc.proxy.splice.life import PASSING, Event, State
from sluicegate_grpc.proxy.splice.responses import Responses
from sluicegate_grpc.proxy.splice.shared import Address, Shared
from sluicegate_grpc.proxy.splice.unreachable import UnreachableBroker
from sluicegate_grpc.semantics.status import UNAVAILABLE, Refusal

_OPEN = State.OPEN
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
    :param stand_ins: brokers to use if the only one is unreachable: their lookups name the new owners of
        its topics. A second later the client must reconnect, as that broker may be back.
    """

    __slots__ = (
        "_callers",
        "_client",
        "_connection",
        "_down",
        "_life",
        "_opening",
        "_policed",
        "_responses",
        "_unreachable",
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
        self._connection = connection = Connection(shared, peer)
        self._life = connection.life
        self._callers = connection.callers
        self._up = connection.up
        self._down = connection.down
        self._responses = Responses(connection)
        refusals = Refusals(connection)
        floods = ControlFloods(shared.limits)
        calling = Calling(connection, self._responses, refusals, floods.empty)
        self._responses.watchers.break_off_by(calling.break_off)
        self._policed = calling.policed
        self._client = ClientSide(connection, calling, refusals, floods)
        BrokerSide(connection, calling, self._responses, refusals)
        routes = routes and bool(shared.rules.methods.route_header)
        self._opening: Opening | None = Opening(shared, addresses, stand_ins, routes)
        """What comes first; None once frames pass."""
        self._unreachable: UnreachableBroker | None = None
        """Responses in place of a broker that cannot be connected."""
        shared.session_opened()

    @property
    def held_bytes(self) -> int:
        """Bytes kept for this connection."""
        early = self._opening.buffered_bytes if self._opening is not None else 0
        early += self._unreachable.buffered_bytes if self._unreachable is not None else 0
        passing = self._up.buffered_bytes + self._down.buffered_bytes
        return early + passing + self._connection.streams.reserved_bytes

    @property
    def open_calls(self) -> int:
        """Calls whose responses have not ended; streams of messages do not count."""
        return len(self._connection.streams.ids) - self._responses.deliveries

    @property
    def frame_began_ns(self) -> int:
        """When the client's current partial frame began; 0 if there is none."""
        return self._up.frame_began_ns if self._opening is None else self._opening.frame_began_ns

    @property
    def is_logged_in(self) -> bool:
        """True once the client is known to speak HTTP/2, and its first frames have gone to the broker."""
        return self._life.state in PASSING or self._unreachable is not None

    @property
    def client(self) -> str:
        """The peer's address."""
        return self._connection.peer

    # -- what the relay calls -------------------------------------------------------------------------

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the client."""
        # <hot> Runs for every read.
        state = self._life.state
        if state is not _OPEN and state not in PASSING:
            if self._unreachable is not None:
                return self._unreachable.receive(data)
            return self._opened(data, now_ns)
        try:
            self._walk_up(data, now_ns)
        except (WireError, NoRoomError) as error:
            self._broken(error)
        return PASS if self._all_passed(self._up, data) else self._finish(up=data)

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the broker."""
        # <hot> Runs for every read.
        if self._life.close is not None:  # GOAWAY is the last that the client gets
            return ()
        try:
            self._walk_down(data, now_ns)
        except (WireError, NoRoomError) as error:
            self._broken(error)
        return PASS if self._all_passed(self._down, data) else self._finish(down=data)

    def _all_passed(self, frames: FrameStream, data: bytes) -> bool:
        """Whether these bytes pass unchanged and there is nothing else to do, which is nearly always so."""
        # A connection that breaks has GOAWAY among its edits.
        connection = self._connection
        passed = (
            not connection.timers.has_new
            and not connection.questions.new
            and frames.is_untouched(data)
            and frames.back.is_untouched(b"")
        )
        if passed:
            frames.done()
        return passed

    def stands_in(self) -> None:
        """Another broker is connected than the one that was asked for."""
        if self._opening is not None:
            self._opening.stands_in()
        self._connection.shared.count(GrpcEvent.STOOD_IN)

    def dialled(self, now_ns: int) -> Sequence[Command]:
        """The broker is connected: forward what the client has sent so far."""
        opening = self._opening
        if opening is None:
            return ()
        self._guarded(partial(self._begin, opening.take()), now_ns)
        if opening.is_stood_in:
            self._connection.timers.at(now_ns + _STAND_IN_NS, self._try_again)
        return self._finish()

    def _begin(self, data: bytes, now_ns: int) -> None:
        """From now on frames pass.

        :param data: behind the client's preface.
        """
        self._opening = None
        self._life.happens(Event.CONNECTED)
        self._up.insert(PREFACE)
        self._walk_up(data, now_ns)

    def _try_again(self, now_ns: int) -> None:
        """Have the client reconnect, which may lead to the broker that it wants."""
        self._client.goes_away("the broker may be back")

    def undialled(self, reason: str, now_ns: int) -> Sequence[Command]:
        """The broker is unreachable: fail the client's requests, then close it."""
        opening, self._opening = self._opening, None
        if opening is None or not opening.waits_for_broker:
            return [Close(ConnectionClose.UPSTREAM_UNREACHABLE, reason)]
        self._life.happens(Event.UNREACHABLE)
        shared = self._connection.shared
        text = f"{shared.brokers.name} cannot be reached: {reason}"
        is_greeted = self._connection.client_settings.is_greeted
        self._unreachable = UnreachableBroker(text, shared.limits, is_greeted=is_greeted)
        return self._unreachable.begin(opening.take(), now_ns)

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """Process what is due."""
        if client_gone:
            return [Close(SessionClose.CLIENT_GONE)]
        if self._unreachable is not None:
            return self._unreachable.wake(now_ns)
        self._follow_policies()
        self._guarded(self._connection.timers.run_due, now_ns)
        return self._finish()

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """Handle the front's answer; an exception if it has none."""
        self._follow_policies()
        self._guarded(partial(self._connection.answered, question, answer), now_ns)
        return self._finish()

    @property
    def reads_while_ending(self) -> bool:
        """Calls that are under way need the client's windows and data; new ones are made elsewhere."""
        return self._life.state in PASSING

    def ending(self, now_ns: int) -> Sequence[Command]:
        """Send GOAWAY, then close once all responses have ended.

        Streams of messages have no end of their own: they end with UNAVAILABLE. Their clients open them again
        at once, and some take it for final if that meets GOAWAY or the closing connection (tonic 0.14:
        CANCELLED). So new requests are refused with UNAVAILABLE for a while before.
        """
        life = self._life
        if life.state not in PASSING:
            is_early = self._opening is not None and not self._opening.waits_for_broker
            return [Close()] if is_early and life.close is None else ()
        if self._responses.deliveries:
            life.refuse(_ENDS, now_ns + _REOPENING_NS)
            self._responses.end_deliveries(_ENDS, now_ns)
        if life.refuses_until_ns and (now_ns < life.refuses_until_ns or self.open_calls):
            return self._finish()
        self._client.goes_away("the gateway ends")
        out = list(self._finish())
        return out if self.open_calls else [*out, Close()]

    def closed(self, now_ns: int) -> None:
        """The connection is closed: release everything that it kept or counted for."""
        for _ in self.parting(now_ns):
            pass

    def parting(self, now_ns: int) -> Iterator[None]:
        """The same in slices."""
        self._policed.closed(now_ns)
        self._responses.closed(now_ns)
        if self._opening is not None:
            self._opening.take()
        self._unreachable = None
        self._connection.shared.session_closed()
        yield from self._connection.parting(now_ns)

    # -- the beginning ----------------------------------------------------------------------------------

    def _opened(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Handle bytes of a client before its HTTP/2 preface or its broker's connection."""
        opening, dial = self._opening, None
        if opening is None or self._life.close is not None:
            return self._finish()
        try:
            data = opening.behind_preface(data, now_ns)
            if not opening.addresses and opening.has_preface:
                self._begin(data, now_ns)
            elif opening.addresses:
                opening.keep(data)
                dial = self._dial(opening) if opening.has_preface else None
        except (WireError, NoRoomError) as error:
            self._broken(error)
        out = self._finish()
        return out if dial is None else [*out, dial]

    def _dial(self, opening: Opening) -> Dial | None:
        if opening.routes and not self._connection.client_settings.is_greeted:
            # Clients wait for SETTINGS before they ask for anything.
            self._down.insert(self._connection.greeting())
        dial = opening.dial()
        if dial is not None and opening.routes:
            self._client.leads_to(opening.addresses)
        return dial

    # -- making commands ------------------------------------------------------------------------------

    def _guarded(self, work: Callable[[int], None], now_ns: int) -> None:
        if self._life.close is not None:
            return
        try:
            work(now_ns)
        except (WireError, NoRoomError) as error:
            self._broken(error)

    def _broken(self, error: WireError | NoRoomError) -> None:
        """A peer has broken the protocol, or the budget is used up: end the connection."""
        last = self._life.last_stream(self._policed.highest)
        if isinstance(error, WireError):
            self._down.insert(goaway(last, error.code, str(error)))
            self._life.fail(Close(error.counter, f"{error} from or for {self.client}"))
        else:
            self._down.insert(goaway(last, ErrorCode.ENHANCE_YOUR_CALM, "out of buffer memory"))
            self._life.fail(Close(*NO_ROOM))

    def _follow_policies(self) -> None:
        callers = self._callers
        if callers.policy_changes != callers.gates.changes:
            callers.follow_policies()

    def _walk_up(self, data: bytes, now_ns: int) -> None:
        callers = self._callers
        if callers.policy_changes != callers.gates.changes:
            callers.follow_policies()
        if self._up.walk(data, now_ns):
            self._connection.wait(TURN, lambda now_ns, answer: self._walk_up(b"", now_ns))
        policed = self._policed
        if policed.marks or policed.calls:
            policed.settle(self._up.read.data, now_ns)

    def _walk_down(self, data: bytes, now_ns: int) -> None:
        callers = self._callers
        if callers.policy_changes != callers.gates.changes:
            callers.follow_policies()
        if self._down.walk(data, now_ns):
            self._connection.wait(TURN, lambda now_ns, answer: self._walk_down(b"", now_ns))
        streams = self._connection.streams
        if len(streams.ids) < streams.floor:
            streams.shrink()

    def _finish(self, up: bytes | None = None, down: bytes | None = None) -> Sequence[Command]:
        """Add the handlers' pending work: bytes for either side, questions, wake-ups, the end."""
        # <hot> Runs for every read, of which nearly all pass unchanged.
        connection = self._connection
        parts, replies = self._up.take(up), self._down.take(down)
        out: list[Command] = []
        if parts:
            out.extend(map(ToUpstream, parts))
        if replies:
            if not connection.client_settings.is_greeted and (own := connection.greeting()):
                replies.insert(0, own)
            out.extend(map(ToClient, replies))
        timers = connection.timers
        if (timers or timers.has_new) and (wake_up_ns := timers.wake_up_ns()) is not None:
            out.append(WakeAt(wake_up_ns))
        if connection.questions.new:
            out.extend(map(Ask, connection.questions.new))
            connection.questions.new.clear()
        if self._life.close is not None:
            out.append(self._life.close)
        if parts is not None and replies is not None:
            return out
        if not out:
            return PASS
        whole: Command = ToUpstream(up) if up is not None else ToClient(down or b"")
        return [whole, *out]
