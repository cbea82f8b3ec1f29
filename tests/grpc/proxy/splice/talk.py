"""A client and a broker, both h2, with a session between them; calls in one line each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.bench import SECOND, Bench
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.oracle.peers import Seen
from tests.grpc.proxy.splice.oracle.wire import Wire

from sluicegate.model import Method, MethodMap, PolicyValue, Role
from sluicegate_grpc.proxy.splice import GrpcSession, Limits, Shared
from sluicegate_grpc.proxy.splice.requests import RequestRules
from sluicegate_grpc.semantics.calls import Attachments, Calls

TOPIC = "orders"
ATTACH, SUBSCRIBE, PUBLISH = service.ATTACH, service.SUBSCRIBE, service.PUBLISH
RECEIVE, ACK, LEAVE, LOOKUP = "/t.Broker/Deliver", "/t.Broker/Ack", "/t.Broker/Leave", "/t.Broker/Lookup"
LATE_PUBLISH = "/t.Broker/LatePublish"
METHODS = MethodMap(
    "made-up",
    {
        **service.METHODS.methods,
        RECEIVE: Method(Role.DISPATCH, consumer=(1,), payload=(2,), position=(1,), published=(3,)),
        ACK: Method(Role.ACKNOWLEDGE, topic=(1,), subscription=(2,), position=(3,)),
        LEAVE: Method(Role.DETACH, attachment=(1,)),
        LATE_PUBLISH: Method(Role.PUBLISH, payload=(1,), topic=(2,), producer=(3,)),
    },
    "x-broker",
)
MAX_HOLD_NS = 2 * SECOND


def front(
    bench: Bench | None = None,
    *,
    limits: Limits | None = None,
    list_valid_ns: int | None = None,
    rewrites: Mapping[str, Callable[[bytes], bytes | None]] | None = None,
    **policies: PolicyValue,
) -> Shared:
    """What sessions share; `__` in a policy's name stands for a dot."""
    bench = bench or Bench()
    bench.set_topic(TOPIC, **{name.replace("__", "."): value for name, value in policies.items()})
    gates = bench.gates
    attachments = Attachments(gates.get, 30 * SECOND, list_valid_ns=list_valid_ns)
    calls = Calls(METHODS, attachments, (gates.live, gates.exempt))
    return Shared(bench, calls, RequestRules(METHODS, rewrites or {}), MAX_HOLD_NS, limits or Limits())


@dataclass
class Talk:
    """A gRPC session between an h2 client and an h2 server, with a method for each step of a test.

    :param shared: what the session shares with those of its gate.
    :param peer: address of the client.
    """

    shared: Shared = field(default_factory=front)
    peer: str = "10.0.0.1:5000"

    def __post_init__(self) -> None:
        self.session = GrpcSession(self.shared, self.peer)
        self.wire = Wire(self.session)
        self._answered: set[int] = set()
        self.wire.settle()

    def call(
        self, path: str, message: bytes, *headers: tuple[str, str], end: bool = True, settled: bool = True
    ) -> int:
        """Begin a call; returns its stream."""
        h2 = self.wire.client.h2
        stream = int(h2.get_next_available_stream_id())
        h2.send_headers(stream, service.request(path, *headers))
        if message or end:
            h2.send_data(stream, message, end_stream=end)
        if settled:
            self.wire.settle()
        return stream

    def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """More of a request, as fast as the windows let it."""
        h2 = self.wire.client.h2
        while data:
            size = min(len(data), h2.local_flow_control_window(stream), h2.max_outbound_frame_size)
            assert size > 0, "the window is shut"
            h2.send_data(stream, data[:size])
            data = data[size:]
            self.wire.settle()
            self.take(self.wire.server)
        if end:
            h2.end_stream(stream)
        self.wire.settle()

    def take(self, peer: object) -> None:
        """One end gives back all that it owes of its windows."""
        for end in (self.wire.client, self.wire.server):
            if end is peer:
                end.give_back(0, end.owed)
                for stream, seen in end.seen.items():
                    if seen.owed and not seen.is_over:
                        end.give_back(stream, seen.owed)
        self.wire.settle()

    def answer(self, stream: int, *messages: bytes, status: int = 0, end: bool = True) -> None:
        """The broker answers."""
        h2 = self.wire.server.h2
        if stream not in self._answered:
            h2.send_headers(stream, service.ANSWER)
            self._answered.add(stream)
        for message in messages:
            h2.send_data(stream, message)
        if end:
            h2.send_headers(stream, [("grpc-status", str(status))], end_stream=True)
        self.wire.settle()

    def attach(self, name: str = "p", called: int = 7) -> int:
        """A producer attaches."""
        stream = self.call(ATTACH, service.message((1, TOPIC), (2, name), (3, 1)))
        if not self.client(stream).is_over:
            self.answer(stream, service.message((1, called)))
        return stream

    def subscribe(self, name: str = "c", called: int = 9, reliable: bool = True) -> int:
        """A consumer attaches."""
        stream = self.call(SUBSCRIBE, service.message((1, TOPIC), (2, name), (3, "s")))
        if not self.client(stream).is_over:
            self.answer(stream, service.message((1, called)))
        return stream

    def publish(self, size: int = 10, producer: int = 7, **more: bool) -> int:
        """A message."""
        return self.call(PUBLISH, service.publish(TOPIC, producer, b"x" * size), **more)

    def receive(self, called: int = 9) -> int:
        """A stream of messages opens."""
        return self.call(RECEIVE, service.message((1, called)))

    def client(self, stream: int) -> Seen:
        """What the client was told."""
        return self.wire.client.seen[stream]

    def refused(self, stream: int) -> tuple[str, str]:
        """Status and text of a call that the gateway ended."""
        assert self.wire.server.seen.get(stream) is None, "the broker heard of it"
        return self.client(stream).status, self.client(stream).headers.get("grpc-message", "")

    def producers(self) -> int:
        """How many count."""
        gate = self.shared.services.gates.get(TOPIC, False, self.wire.now)
        return len(gate.state.producers)

    def consumers(self) -> int:
        """How many count."""
        return self.shared.services.gates.get(TOPIC, False, self.wire.now).state.consumer_count

    def hang_up(self) -> None:
        """The connection ends; nothing is left of it."""
        self.session.closed(self.wire.now)
        assert self.session.held_bytes == 0
        assert self.shared.services.budget.used == 0
        assert self.shared.sessions == 0


def delivered(position: int, size: int = 10, published: int = 0) -> bytes:
    """A message to a consumer."""
    fields: Sequence[tuple[int, int | bytes]] = ((1, position), (2, b"m" * size))
    return service.message(*fields, *(((3, published),) if published else ()))
