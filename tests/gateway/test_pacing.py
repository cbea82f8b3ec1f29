"""No connection keeps the loop from others: large reads are cut, and take turns. Time is the test's own."""

import asyncio
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sluicegate.broker import PASS, BaseSession, Close, Command, Listener, PauseReading
from sluicegate.model import SessionClose
from sluicegate.net.relaying import fair_reading, relay, turns, upstream_side
from sluicegate.net.relaying.fair_reading import TURN
from sluicegate.net.relaying.read_control import SESSION
from sluicegate.net.relaying.relay import ClientSide
from sluicegate.net.relaying.turns import SLICE_NS, Turns
from sluicegate.net.relaying.upstream_side import UpstreamSide

READ = bytes(256 * 1024)
"""What the event loop reads at once, at most."""
DEAR_NS, CHEAP_NS = 2_000, 0
"""What a session of these tests takes for each byte: tiny requests, or bulk."""

LONGEST_NS = 20 * SLICE_NS
"""One turn at most, the first pieces of connections whose cost is not known yet included."""


class Clock:
    """Monotonic time, and the thread's, that only work turns on."""

    def __init__(self) -> None:
        self.now_ns = 10**12

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    it = Clock()
    for module in (relay, upstream_side, fair_reading, turns):
        monkeypatch.setattr(module, "monotonic_ns", it)
    monkeypatch.setattr(fair_reading, "thread_time_ns", it)
    return it


class Transport:
    """Takes all that is written, and knows whether it is read from."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.is_read = True
        self.is_closed = self.has_ended = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def pause_reading(self) -> None:
        self._switch(False)

    def resume_reading(self) -> None:
        self._switch(True)

    def _switch(self, is_read: bool) -> None:
        if self.is_closed:
            raise RuntimeError("the handler is closed")  # as uvloop does
        self.is_read = is_read

    def is_closing(self) -> bool:
        return self.is_closed

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True

    def close(self) -> None:
        self.is_closed = True


class Session(BaseSession):
    """Passes everything on, and takes time for each byte."""

    def __init__(self, clock: Clock, ns_per_byte: int) -> None:
        self.clock = clock
        self.ns_per_byte = ns_per_byte
        self.reads: list[int] = []
        """Sizes of what it was given."""
        self.says: Sequence[Command] = PASS

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        self.reads.append(len(data))
        self.clock.now_ns += len(data) * self.ns_per_byte
        return self.says

    receive_upstream = receive_client


class Peer:
    """One client connected to its broker, without sockets."""

    def __init__(self, connections: Any, clock: Clock, ns_per_byte: int) -> None:
        self.session = Session(clock, ns_per_byte)
        connections.session = lambda *_: self.session
        self.client, self.broker = Transport(), Transport()
        self.side = ClientSide(connections, Listener("x", "127.0.0.1", 1, ()), "10.0.0.1:5", -1)
        self.side.connection_made(self.client)  # type: ignore[arg-type]
        self.upstream = UpstreamSide(self.side)
        self.upstream.connection_made(self.broker)  # type: ignore[arg-type]

    @property
    def done(self) -> int:
        """Bytes that the session has seen."""
        return sum(self.session.reads)


class Lab:
    """Peers that share the turns of one loop."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        names = ("opened", "closing", "queued", "count", "session_failed")
        self.connections: Any = SimpleNamespace(**dict.fromkeys(names, lambda *_: None))
        self.connections.turns = Turns(asyncio.get_running_loop())
        self.connections.bytes_from_clients = self.connections.bytes_from_brokers = 0
        self.connections.is_tls = True

    def peer(self, ns_per_byte: int = DEAR_NS) -> Peer:
        return Peer(self.connections, self.clock, ns_per_byte)

    async def turn(self) -> int:
        """One turn of the loop: how long it took."""
        began_ns = self.clock.now_ns
        await asyncio.sleep(0)
        return self.clock.now_ns - began_ns


@pytest.fixture
async def lab(clock: Clock) -> Lab:
    return Lab(clock)


def both(peer: Peer) -> Iterator[tuple[Any, Transport, Transport]]:
    """Each direction: who receives, what is read, and where it goes."""
    yield peer.side, peer.client, peer.broker
    yield peer.upstream, peer.broker, peer.client


async def test_a_hundred_expensive_reads_are_spread_over_turns(lab: Lab) -> None:
    floods = [lab.peer() for _ in range(100)]
    began_ns = lab.clock.now_ns
    for peer in floods:
        peer.side.data_received(READ)
        peer.upstream.data_received(READ)
    assert lab.clock.now_ns - began_ns < LONGEST_NS
    assert all(not peer.client.is_read and not peer.broker.is_read for peer in floods)
    light = lab.peer()
    for _ in range(50):
        assert await lab.turn() < LONGEST_NS
        before_ns = lab.clock.now_ns
        light.side.data_received(b"small")
        light.upstream.data_received(b"small")
        assert lab.clock.now_ns - before_ns == 10 * DEAR_NS  # nothing of the others' work went before
    assert light.client.sent == light.broker.sent == b"small" * 50


async def test_turns_rotate(lab: Lab) -> None:
    floods = [lab.peer() for _ in range(5)]
    for peer in floods:
        peer.side.data_received(READ)
    for _ in range(200):
        await lab.turn()
    done = [peer.done for peer in floods]
    assert min(done) > 0
    assert max(done) - min(done) <= LONGEST_NS // DEAR_NS


async def test_all_bytes_arrive_in_order_and_reading_resumes(lab: Lab) -> None:
    peer = lab.peer(ns_per_byte=100)
    data = bytes(range(256)) * 1024
    for side, source, target in both(peer):
        side.data_received(data)
        while not source.is_read:
            await lab.turn()
        side.data_received(b"more")
        assert target.sent == data + b"more"
        assert not side._pauses


async def test_cheap_bulk_data_is_not_sliced(lab: Lab) -> None:
    peer = lab.peer(CHEAP_NS)
    for side, source, _ in both(peer):
        for _ in range(4):
            lab.clock.now_ns += SLICE_NS
            side.data_received(READ)
            assert source.is_read
        assert peer.session.reads[-1] == len(READ)


async def test_a_paused_session_gets_no_further_bytes(lab: Lab) -> None:
    peer = lab.peer()
    peer.session.says = [PauseReading()]
    peer.side.data_received(READ)
    assert len(peer.session.reads) == 1
    for _ in range(5):
        await lab.turn()
    assert len(peer.session.reads) == 1
    peer.session.says = PASS
    peer.side.resume(SESSION)
    peer.side._go_on()
    for _ in range(len(READ) * DEAR_NS // SLICE_NS + 10):
        await lab.turn()
    assert peer.client.is_read
    assert peer.done == len(READ)


async def test_queued_bytes_are_delivered_before_the_end(lab: Lab) -> None:
    peer = lab.peer()
    peer.side.data_received(READ)
    peer.side.eof_received()
    await lab.turn()
    for _ in range(len(READ) * DEAR_NS // SLICE_NS + 10):
        await lab.turn()
    assert peer.broker.has_ended
    assert peer.done == len(READ)


async def test_queued_bytes_survive_a_close_by_the_broker(lab: Lab) -> None:
    peer = lab.peer()
    peer.upstream.data_received(READ)
    assert peer.done < len(READ)
    peer.upstream.eof_received()
    assert len(peer.client.sent) == len(READ)
    assert peer.client.is_closed


async def test_queued_bytes_survive_a_reset_by_the_broker(lab: Lab) -> None:
    peer = lab.peer()
    peer.upstream.data_received(READ)
    peer.broker.is_closed = True  # what the loop knows, and has not told yet
    await lab.turn()
    assert peer.done < len(READ)
    peer.side._sides += 1
    peer.upstream.connection_lost(None)
    assert len(peer.client.sent) == len(READ)


async def test_closing_a_client_in_its_turn_skips_no_other(lab: Lab) -> None:
    peer, other = lab.peer(), lab.peer()
    peer.session.says = [Close(SessionClose.CLIENT_GONE)]
    peer.side.data_received(READ)
    assert len(peer.session.reads) == 1
    other.side.data_received(READ)
    for _ in range(5):
        await lab.turn()
    assert len(peer.session.reads) == 1
    assert peer.side.kept_bytes == 0


async def test_queued_bytes_count_as_buffered(lab: Lab) -> None:
    peer = lab.peer()
    for side, _, _ in both(peer):
        side.data_received(READ)
        assert side._pauses & TURN
    assert peer.side.kept_bytes == 2 * len(READ) - peer.done
