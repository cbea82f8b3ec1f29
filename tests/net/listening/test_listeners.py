"""Listeners whose address is taken are opened once it is free."""

import asyncio
import socket
from time import monotonic_ns
from typing import Any

import pytest
from tests.gateway.lab import closed_port, on_uvloop, upstream
from tests.gateway.test_embedded import config, gateway

from sluicegate.broker import Listener
from sluicegate.net.listening.acceptor import Acceptor
from sluicegate.runtime.plugins import CHOICE

_HOST = "127.0.0.1"


@pytest.fixture(autouse=True)
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


@pytest.mark.parametrize("moves", [False, True])
@on_uvloop
async def test_a_late_listener_is_opened_once_its_address_is_free(moves: bool) -> None:
    async with upstream() as port, gateway(config(port)) as served:
        worker = served.worker()
        if moves:
            await worker.listen(Listener("late", _HOST, 0, ((_HOST, port),)))
        with socket.create_server((_HOST, 0)) as other:
            address = other.getsockname()
            with pytest.raises(OSError, match="Address already in use"):
                await worker.listen(Listener("late", _HOST, address[1], ((_HOST, port),)))
            await worker.tick(monotonic_ns())
            assert "late" not in worker.listeners.addresses
        await worker.tick(monotonic_ns())
        assert worker.listeners.addresses["late"] == address
        assert worker._housekeeping.front_faults == 0


@on_uvloop
async def test_one_that_moves_while_it_is_opened_is_open_at_its_last_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_now, may_go_on = Acceptor.open, asyncio.Event()

    async def late(listener: Listener, *more: Any) -> Acceptor:
        acceptor = await open_now(listener, *more)
        if listener.port == before:
            await may_go_on.wait()
        return acceptor

    async with upstream() as port, gateway(config(port)) as served:
        worker = served.worker()
        before, after = closed_port(), closed_port()
        monkeypatch.setattr(Acceptor, "open", late)
        opening = asyncio.ensure_future(worker.listen(Listener("late", _HOST, before, ((_HOST, port),))))
        await asyncio.sleep(0)
        await worker.listen(Listener("late", _HOST, after, ((_HOST, port),)))
        may_go_on.set()
        await opening
        assert worker.listeners.addresses["late"] == (_HOST, after)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(_HOST, before)


@on_uvloop
async def test_addresses_stay_known_while_connections_drain() -> None:
    """Whether a broker is the gateway itself is asked at each dial, and a drain dials too."""
    async with upstream() as port, gateway(config(port)) as served:
        listeners = served.worker().listeners
        addresses = dict(listeners.addresses)
        listeners.close()
        assert addresses
        assert listeners.addresses == addresses
