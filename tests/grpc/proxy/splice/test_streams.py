"""The stream limit of one connection, and the memory of its streams."""

import pytest
from tests.bench import SECOND, START, Bench
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.raw import HELLO, headers
from tests.grpc.proxy.splice.oracle.reshape import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    RST_STREAM,
    SETTINGS,
    Cutter,
    Frame,
    frame,
)

from sluicegate.broker import PASS, Ask, Close, ToClient, ToUpstream
from sluicegate.engine.budget import Budget
from sluicegate_grpc.proxy.splice import GrpcSession, Limits, Shared
from sluicegate_grpc.proxy.splice.streams import STREAM_BYTES, Streams

LIMIT = 100
REFUSED_STREAM, ENHANCE_YOUR_CALM = 7, 11
MAX_STREAMS = b"\0\3"


class Client:
    """A client that opens streams, and a broker that answers some of them."""

    def __init__(self, limits: Limits, bench: Bench | None = None) -> None:
        self.front: Shared = gate.shared(bench, limits)
        self.session: GrpcSession = gate.session(self.front)
        self.now = START
        self.got: list[Frame] = []
        self.passed: list[Frame] = []
        self.closed: Close | None = None
        self._to_client, self._to_broker = Cutter(has_preface=False), Cutter(has_preface=True)
        self.send(HELLO)
        self.answer(frame(SETTINGS))

    def send(self, data: bytes) -> None:
        self._obey(self.session.receive_client(data, self.now), data, is_up=True)

    def answer(self, data: bytes) -> None:
        self._obey(self.session.receive_upstream(data, self.now), data, is_up=False)

    def _obey(self, commands: object, data: bytes, *, is_up: bool) -> None:
        if commands is PASS:
            commands = [ToUpstream(data) if is_up else ToClient(data)]
        assert isinstance(commands, list)
        for command in commands:
            if isinstance(command, ToClient):
                self.got += self._to_client.feed(bytes(command.data))
            elif isinstance(command, ToUpstream):
                self.passed += self._to_broker.feed(bytes(command.data))
            elif isinstance(command, Close):
                self.closed = command
            elif isinstance(command, Ask) and self.closed is None:
                self._obey(self.session.answered(command.question, None, self.now), b"", is_up=is_up)

    def resets(self) -> list[tuple[int, int]]:
        """Streams that were reset, and why."""
        return [(each.stream, int.from_bytes(each.payload)) for each in self.got if each.type == RST_STREAM]

    def reached(self) -> list[int]:
        """Streams that the broker heard of."""
        return [each.stream for each in self.passed if each.type == HEADERS]

    def hang_up(self) -> None:
        self.session.closed(self.now)
        assert self.session.held_bytes == 0
        assert self.front.services.budget.used == 0


@pytest.mark.parametrize(("said", "told"), [(b"", LIMIT), (MAX_STREAMS + bytes((0, 0, 0, 7)), 7)])
def test_settings_announce_the_stream_limit(said: bytes, told: int) -> None:
    session = gate.session(gate.shared(limits=Limits(max_streams=LIMIT)))
    session.receive_client(HELLO, START)
    (first,) = session.receive_upstream(frame(SETTINGS, 0, 0, said), START)
    assert isinstance(first, ToClient)
    (settings,) = Cutter(has_preface=False).feed(bytes(first.data))
    assert MAX_STREAMS + told.to_bytes(4) in settings.payload
    session.closed(START)


@pytest.mark.parametrize("path", [service.OTHER, service.PUBLISH])
def test_idle_streams_are_bounded_in_number_and_memory(path: str) -> None:
    """5,000 requests without an end; those of PUBLISH are held by the gateway, for their message."""
    client = Client(Limits(max_streams=LIMIT))
    for number in range(5_000):
        client.send(headers(2 * number + 1, path))
        client.now += SECOND // 1_000

    assert client.closed is None
    assert client.resets() == [(2 * number + 1, REFUSED_STREAM) for number in range(LIMIT, 5_000)]
    assert client.reached() == ([2 * number + 1 for number in range(LIMIT)] if path == service.OTHER else [])
    assert client.session.open_calls == LIMIT
    assert client.session.held_bytes <= LIMIT * (STREAM_BYTES + 200)
    assert client.front.services.budget.used == client.session.held_bytes
    assert client.front.counts["stream_refused"] == 4_900
    client.hang_up()


def test_a_stream_that_ends_makes_room_for_another() -> None:
    client = Client(Limits(max_streams=2))
    client.send(headers(1, service.OTHER) + headers(3, service.OTHER) + headers(5, service.OTHER))
    client.answer(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88"))
    client.send(headers(7, service.OTHER))
    client.send(frame(RST_STREAM, 0, 3, bytes(4)) + headers(9, service.OTHER))
    client.answer(frame(RST_STREAM, 0, 7, bytes(4)))
    client.send(headers(11, service.OTHER, end=True) + headers(13, service.OTHER, end=True))

    assert client.reached() == [1, 3, 7, 9, 11]
    assert [each for each in client.resets() if each[1]] == [(5, REFUSED_STREAM), (13, REFUSED_STREAM)]
    client.hang_up()


def test_frames_of_a_refused_stream_are_discarded() -> None:
    client = Client(Limits(max_streams=1))
    client.send(headers(1, service.OTHER) + headers(3) + headers(5))
    client.send(frame(DATA, 0, 3, b"late") + frame(DATA, END_STREAM, 5, b"late"))
    client.send(frame(DATA, END_STREAM, 1, b"mine"))

    assert [(each.type, each.stream) for each in client.passed[1:]] == [(HEADERS, 1), (DATA, 1)]
    client.hang_up()


def test_a_client_that_ignores_the_stream_limit_is_closed() -> None:
    client = Client(Limits(max_streams=LIMIT, resets=50))
    client.send(b"".join(headers(2 * number + 1, service.OTHER) for number in range(LIMIT + 51)))

    assert client.closed is not None
    assert client.closed.counter == "resets_flood"
    assert client.got[-1].type == GOAWAY
    assert int.from_bytes(client.got[-1].payload[4:8]) == ENHANCE_YOUR_CALM
    client.hang_up()


def test_streams_beyond_the_shared_budget_are_refused_for_a_retry() -> None:
    bench = gate.services()
    bench.budget.limit = 300 * STREAM_BYTES
    first, second = Client(Limits(), bench), Client(Limits(resets=10), bench)
    for client in (first, second):
        client.send(b"".join(headers(2 * number + 1, service.OTHER) for number in range(400)))

    assert first.closed is second.closed is None  # it is not their fault
    assert len(first.reached()) == 256
    assert len(second.reached()) == 32
    assert {code for _, code in first.resets() + second.resets()} == {REFUSED_STREAM}
    first.session.closed(START)
    second.send(headers(1_001, service.OTHER))
    assert second.reached()[-1] == 1_001
    second.hang_up()


def test_memory_is_reserved_in_steps_and_released() -> None:
    budget = Budget(0)
    streams = Streams(budget, 1_000)
    took: set[int] = set()
    for stream in range(1_000):
        assert len(streams.ids) < streams.room or streams.grow()
        streams.ids.add(stream)
        took.add(budget.used)
    assert budget.used == streams.reserved_bytes == 992 * STREAM_BYTES
    assert len(took) == 8
    assert not streams.grow()
    for stream in range(995):
        streams.ended(stream)
    assert budget.used <= 32 * STREAM_BYTES
    for stream in range(995, 1_000):
        streams.ended(stream)
    assert budget.used == 0
    assert streams.grow()
    streams.closed()
    assert budget.used == streams.reserved_bytes == 0
