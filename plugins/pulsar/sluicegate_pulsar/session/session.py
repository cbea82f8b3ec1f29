"""One Pulsar client connection: its two streams and the handlers of their frames.

Rules of this file: no IO, no clock, no policy; the handlers know what a frame means.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from sluicegate.broker import (
    PASS,
    Ask,
    BaseSession,
    Close,
    Command,
    Dial,
    PauseReading,
    ResumeReading,
    ToClient,
    ToUpstream,
    WakeAt,
)
from sluicegate.broker.broker_ports import Address
from sluicegate.model import SessionClose
from sluicegate.sessions.pieces import NO_ROOM, NoRoomError
from sluicegate.sessions.work import TURN
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.events import PulsarClose
from sluicegate_pulsar.session.consumers.consuming import Consuming
from sluicegate_pulsar.session.handshake import Handshake
from sluicegate_pulsar.session.producers.producing import Producing
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.creating import Creating
from sluicegate_pulsar.session.requests.handling import Handler
from sluicegate_pulsar.session.requests.lookup import Lookup
from sluicegate_pulsar.session.requests.reading_stops import Reading
from sluicegate_pulsar.session.requests.stream import MESSAGE_WORK, SEND_WORK, Bounds, Stream
from sluicegate_pulsar.session.shared.shared import Shared

_TYPES = pb.BaseCommand.Type
_RESPONSES = (
    _TYPES.SUCCESS,
    _TYPES.ERROR,
    _TYPES.PRODUCER_SUCCESS,
    _TYPES.PARTITIONED_METADATA_RESPONSE,
)


class PulsarSession(BaseSession):
    """One client connection and its upstream connection, without their sockets.

    :param shared: the front's state.
    :param peer: the client's address, `host:port`.
    :param addresses: brokers that the listener stands for, tried one after the other.
    """

    __slots__ = (
        "_broker_reading",
        "_dialling",
        "_from_broker",
        "_from_client",
        "_gates",
        "_is_paused",
        "_policy_changes",
        "_shared",
        "connection",
        "consuming",
        "handshake",
        "producing",
    )

    def __init__(self, shared: Shared, peer: str, addresses: tuple[Address, ...]) -> None:
        self._shared = shared
        self._gates = shared.gates
        self._policy_changes = shared.gates.changes
        """The number of policy changes that this session has applied."""
        self.connection = connection = Connection(peer, shared.budget, shared.config.max_requests_in_flight)
        lookup = Lookup(shared, connection)
        broker_handlers: dict[int, Handler] = {}
        begin = partial(self._begin, broker_handlers)
        self.handshake = Handshake(shared, connection, addresses, self._dial, begin)
        self.producing = Producing(shared, connection, lookup)
        self.consuming = Consuming(shared, connection, lookup)
        largest, command = shared.config.max_frame_bytes, shared.config.max_command_bytes
        self._from_client = Stream(
            shared.budget,
            Bounds(largest, command, checks_lists=True, work=SEND_WORK),
            connection.out,
            ToUpstream,
            connection.reading,
            connection.give_way,
        )
        self._from_client.handle(self.handshake.client_handlers, self.handshake.too_early)
        self._broker_reading = Reading()
        self._from_broker = Stream(
            shared.budget,
            Bounds(largest, largest, checks_lists=False, work=MESSAGE_WORK),
            connection.out,
            ToClient,
            self._broker_reading,
            self._broker_gives_way,
        )
        broker_handlers |= dict.fromkeys(_RESPONSES, connection.requests.response)
        for room in (self.handshake, lookup, self.producing, self.consuming):
            broker_handlers |= room.broker_handlers
        self._from_broker.handle(broker_handlers)
        self._dialling: tuple[Address, ...] = ()
        self._is_paused = False

    def _dial(self, addresses: tuple[Address, ...]) -> None:
        """The client's broker is known: buffer the client's bytes until it is connected."""
        self._dialling = addresses
        self.connection.reading.stop()

    def _broker_gives_way(self) -> None:
        """Handle the broker's next frames after other clients' turns."""
        self._broker_reading.stop()
        self.connection.wait(TURN, self._read_broker)

    def _read_broker(self, now_ns: int, answer: object) -> None:
        self._broker_reading.resume()

    def _begin(self, broker_handlers: dict[int, Handler]) -> None:
        """The broker has accepted the client: switch to the handlers of its commands."""
        client_handlers: dict[int, Handler] = {
            **self.handshake.later_handlers,
            **Creating(self._shared, self.connection).client_handlers,
            **self.producing.client_handlers,
            **self.consuming.client_handlers,
        }
        self._from_client.handle(client_handlers)
        self._from_client.body.pass_by_start(self.producing.foretelling)
        self.consuming.begin(client_handlers, broker_handlers)

    @property
    def held_bytes(self) -> int:
        """Bytes kept for this connection."""
        connection = self.connection
        rooms = connection.memory.nbytes + connection.requests.nbytes
        return self._from_client.held_bytes + self._from_broker.held_bytes + rooms

    @property
    def frame_began_ns(self) -> int:
        """When the current partial frame began; 0 if there is none."""
        stream = self._from_client
        is_partial = stream.body.unread or (stream.held_bytes > 0 and not self.connection.reading.stops)
        return stream.began_ns if is_partial else 0

    @property
    def unread_request_bytes(self) -> int:
        """How many of the client's next bytes pass unread."""
        return self._from_client.body.unread

    @property
    def is_logged_in(self) -> bool:
        """True once the broker has accepted the client."""
        return self.connection.client.is_ready

    @property
    def principal(self) -> str:
        """The principal that the broker has accepted."""
        return self.connection.client.principal

    @property
    def client(self) -> str:
        """Client library and peer address."""
        return self.connection.client.label

    # -- what the relay calls -----------------------------------------------------------------------

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the client."""
        # <hot> Runs for every read.
        out: list[Command] = []
        if self._policy_changes != self._gates.changes:
            self._follow_policies(now_ns)
        self._walk(self._from_client, data, now_ns, out)
        return PASS if self._all_passed(data, out) else self._finish(out)

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the broker."""
        # <hot> Runs for every read.
        out: list[Command] = []
        if self._policy_changes != self._gates.changes:
            self._follow_policies(now_ns)
            self._from_broker.flush(out)  # withheld frames precede new ones
        self._walk(self._from_broker, data, now_ns, out)
        if self._all_passed(data, out):
            return PASS
        self._read_on(out, now_ns)  # fewer responses are awaited
        return self._finish(out)

    def request_passed(self, count: int, now_ns: int) -> Sequence[Command]:
        """Count bytes that were sent to the broker."""
        out: list[Command] = []
        self._from_client.body.passed(count, out)
        return self._finish(out)

    def dialled(self, now_ns: int) -> Sequence[Command]:
        """The client's broker is connected: forward the client's first frame and the bytes after it."""
        out: list[Command] = []
        self.handshake.dialled()
        self._from_client.flush(out)
        self.connection.reading.resume()
        self._walk(self._from_client, b"", now_ns, out)
        return self._finish(out)

    def undialled(self, reason: str, now_ns: int) -> Sequence[Command]:
        """The client's broker is unreachable: send the protocol's error, then close."""
        self.handshake.undialled(reason)
        return self._finish([])

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """Process what is due."""
        if client_gone:
            return [Close(SessionClose.CLIENT_GONE)]
        self._follow_policies(now_ns)
        try:
            self.connection.run_due(now_ns)
        except (ProtocolError, NoRoomError) as error:
            self._failed(error)
        return self._finish([])

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """The front has answered, or cannot: resume what waits for it."""
        out: list[Command] = []
        self._follow_policies(now_ns)
        self._from_broker.flush(out)
        try:
            self.connection.answered(question, now_ns)
        except (ProtocolError, NoRoomError) as error:
            self._failed(error)
        if not self._broker_reading.stops:
            self._from_broker.flush(out)
            self._walk(self._from_broker, b"", now_ns, out)
        self._read_on(out, now_ns)
        return self._finish(out)

    def ending(self, now_ns: int) -> Sequence[Command]:
        """Tell the client to reopen everything, elsewhere, then close.

        Not before all receipts are sent: a client that reopens its producer resends everything without
        a receipt.
        """
        connection = self.connection
        self._from_client.drop()
        if not connection.client.is_ready:
            return [Close()]
        has_rest = connection.requests.are_under_way or self._broker_reading.stops
        settled = self.producing.ending(now_ns) and not has_rest
        out = list(self._finish([]))
        if settled:
            out.extend(map(ToClient, (*self.producing.closes(), *self.consuming.closes())))
            out.append(Close())
        return out

    def closed(self, now_ns: int) -> None:
        """The connection is closed: release everything that it held or counted for."""
        for _ in self.parting(now_ns):
            pass

    def parting(self, now_ns: int) -> Iterator[None]:
        """The same in slices."""
        self._from_client.drop()
        self._from_broker.drop()
        yield from self.producing.parting(now_ns)
        yield from self.consuming.parting(now_ns)
        self.connection.memory.give(self.connection.memory.nbytes)

    # -- making commands ------------------------------------------------------------------------------

    def _walk(self, stream: Stream, data: bytes, now_ns: int, out: list[Command]) -> None:
        # <hot> Runs for every read.
        try:
            stream.walk(data, now_ns, out)
        except (ProtocolError, NoRoomError) as error:
            self._failed(error)

    def _failed(self, error: ProtocolError | NoRoomError) -> None:
        """End the connection of a client that breaks the protocol, or for which there is no memory."""
        if isinstance(error, NoRoomError):
            self.connection.close(*NO_ROOM)
        else:
            self.connection.close(PulsarClose.MALFORMED_FRAME, f"{error} from or for {self.client}")

    def _follow_policies(self, now_ns: int) -> None:
        """Apply the current policies if they have changed; that may release messages."""
        if self._policy_changes != self._gates.changes:
            self._policy_changes = self._gates.changes
            client = self.connection.client
            if client.is_ready:
                client.policies_changed(exempt=self._shared.is_exempt(client.principal))
            self.consuming.policies_changed(now_ns)

    def _all_passed(self, data: bytes, out: list[Command]) -> bool:
        """Whether these bytes pass unchanged and there is nothing else to do, which is nearly always so."""
        # <hot> Runs for every read.
        if len(out) != 1 or self._is_paused:
            return False
        only = out[0]
        passed = (type(only) is ToUpstream or type(only) is ToClient) and only.data is data
        return passed and not self.connection.has_work

    def _read_on(self, out: list[Command], now_ns: int) -> None:
        """Handle what the client sent while it was not read, if nothing is left to wait for."""
        connection, stream = self.connection, self._from_client
        stream.flush(out)
        while stream.has_frames and not connection.reading.stops and connection.closing is None:
            self._walk(stream, b"", now_ns, out)
            stream.flush(out)

    def _finish(self, out: list[Command]) -> Sequence[Command]:
        """Add the handlers' pending work: bytes for either side, questions, wake-ups, pauses, the end."""
        connection = self.connection
        if connection.out:
            self._from_client.flush(out)
        if connection.closing is not None:
            out.append(Close(*connection.closing))
            return self._from_client.body.in_order(out)
        if self._dialling:
            out.append(Dial(self._dialling))
            self._dialling = ()
        if connection.questions.new:
            out.extend(map(Ask, connection.questions.new))
            connection.questions.new.clear()
        if connection.timers and (wake_up_ns := connection.timers.wake_up_ns()) is not None:
            out.append(WakeAt(wake_up_ns))
        # While the broker is dialled the relay does not read either; the rest of a frame always comes.
        must_pause = (
            connection.reading.stops > 0 and connection.client.is_ready and not self._from_client.body.unread
        )
        if self._is_paused != must_pause:
            self._is_paused = not self._is_paused
            out.append(PauseReading() if self._is_paused else ResumeReading())
        return self._from_client.body.in_order(out) if self._from_client.body.unread else out
