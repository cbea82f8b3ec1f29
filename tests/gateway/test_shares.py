"""Places and memory are shared: no address, principal or client that does not read takes all of it."""

import asyncio
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.echo_plugin import RawSession
from tests.gateway.lab import LIMITS, Streams, lab, on_uvloop, upstream
from tests.waiting import LONG_S

from sluicegate.broker import ToClient
from sluicegate.model import ConnectionEvent
from sluicegate.net.admission import ConnectionPlaces, share_of
from sluicegate.net.relief import largest_first

_MIB = 1024 * 1024


async def end(reader: asyncio.StreamReader) -> bytes:
    """All that still comes until the connection ends, however it ends."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A broker that says much more than a client reads."""
    while await reader.readline():
        writer.write(b"z" * 20_000_000)
        await writer.drain()


def test_a_small_limit_still_admits_every_user() -> None:
    assert [share_of(most, 0.9) for most in (1, 5, 10, 1000)] == [1, 5, 9, 900]


def test_one_address_cannot_take_all_connections() -> None:
    limits = LIMITS.__class__(10, 0, 0, 0, 1.0, address_share=0.5)
    admission = ConnectionPlaces(limits)
    for connected in range(5):
        assert admission.refusal("10.0.0.1", connected) is None
        admission.joined("10.0.0.1")
    assert admission.refusal("10.0.0.1", 5) == ConnectionEvent.REFUSED_ADDRESS
    assert admission.refusal("10.0.0.2", 5) is None
    assert admission.refusal("10.0.0.2", 10) == ConnectionEvent.REFUSED
    admission.left("10.0.0.1")
    assert admission.refusal("10.0.0.1", 4) is None
    admission.is_overloaded = True
    assert admission.refusal("10.0.0.2", 4) == ConnectionEvent.REFUSED_OVERLOAD
    for _ in range(4):
        admission.left("10.0.0.1")
    assert not admission._by_address


@on_uvloop
async def test_clients_of_an_address_with_its_share_are_refused_until_one_leaves() -> None:
    async with upstream() as port, lab(port, max_connections=4, address_share=0.5) as it:
        clients = [await it.connect() for _ in range(2)]
        refused, _ = await it.connect()
        assert await end(refused) == b""
        assert it.counts["connections_refused_address"] == 1
        clients[0][1].close()
        await it.until(lambda: len(it.connections) == 1)
        reader, writer = await it.connect()
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"


def test_the_newest_clients_of_a_principal_above_its_share_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RawSession, "principal", "User:app", raising=False)

    @on_uvloop
    async def play() -> None:
        async with upstream() as port, lab(port, name="raw", max_connections=4, principal_share=0.5) as it:
            clients: list[Streams] = []
            for _ in range(3):
                clients.append(await it.connect())
                clients[-1][1].write(b"hello\n")
                assert await clients[-1][0].readline() == b"hello\n"
            await it.sweep()
            assert await end(clients[2][0]) == b""
            assert it.counts["principal_share_used_up"] == 1
            clients[0][1].write(b"still here\n")
            assert await clients[0][0].readline() == b"still here\n"

    play()


def test_reading_pauses_for_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the gateway answers itself would pile up."""
    monkeypatch.setattr(RawSession, "receive_client", lambda self, data, now_ns: [ToClient(bytes(_MIB))])

    @on_uvloop
    async def play() -> None:
        async with upstream() as port, lab(port, name="raw") as it:
            reader, writer = await it.connect(limit=1024)
            for _ in range(100):
                writer.write(b"x")
                await asyncio.sleep(0.001)
            await it.settled(lambda: it.connections.bytes_from_clients)
            assert it.connections.bytes_from_clients < 100
            await it.sweep()
            assert it.connections.buffered_bytes < 2 * _MIB
            while it.connections.bytes_from_clients < 100:  # once it reads, all is read of it
                assert await reader.read(_MIB)

    play()


@on_uvloop
async def test_a_memory_shortage_between_sweeps_closes_the_largest_client_at_once() -> None:
    async with upstream(flood) as port, lab(port, buffer_bytes=_MIB) as it:
        clients = [await it.connect(limit=1024) for _ in range(10)]
        for _, writer in clients:
            writer.write(b"go\n")
        await it.until(lambda: it.counts["buffer_budget_used_up"] >= 5)
        await it.until(lambda: len(it.connections) <= 5)
        async with asyncio.timeout(LONG_S):
            # A sweep tells what it found before it closed the largest; what is left may still be filling up.
            await it.sweep()
            while it.connections.buffered_bytes > it.connections.budget.mark:
                await asyncio.sleep(0)
                await it.sweep()
        assert it.connections.budget.others == it.connections.buffered_bytes


KEPT = st.lists(st.tuples(st.integers(1, 100), st.sampled_from("abc")), max_size=30)


@given(KEPT, st.integers(0, 2000))
def test_closing_the_largest_users_frees_enough(kept: list[tuple[int, str]], excess: int) -> None:
    numbered = [(size, user, number) for (size, user), number in zip(kept, count(), strict=False)]
    chosen = largest_first(numbered, excess)
    assert len({client for _, client in chosen}) == len(chosen)
    given_back = sum(size for size, _ in chosen)
    assert given_back >= min(excess, sum(size for size, _ in kept))
    assert not chosen or given_back - chosen[-1][0] < excess
    left = {user: sum(size for size, whose in kept if whose == user) for user in "abc"}
    for size, client in chosen:
        user = kept[client][1]
        assert left[user] == max(left.values())
        left[user] -= size


def test_small_connections_of_the_largest_user_are_closed_first() -> None:
    kept = [(10, "many", f"m{number}") for number in range(20)] + [(50, "one", "o")]
    assert [client for _, client in largest_first(kept, 150)] == [f"m{number}" for number in range(15)]
