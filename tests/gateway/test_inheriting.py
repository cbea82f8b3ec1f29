"""A worker's inherited listening sockets, and those that its supervisor keeps."""

import socket
from time import monotonic_ns

import pytest
from tests.gateway.lab import on_uvloop, upstream
from tests.gateway.test_embedded import config, gateway
from tests.waiting import until_so

from sluicegate.broker import Listener
from sluicegate.net.listening import descriptors
from sluicegate.net.listening.held_listeners import Announcer, HeldListeners
from sluicegate.net.listening.sockets import Inherited
from sluicegate.runtime.plugins import CHOICE

_HOST = "127.0.0.1"


@pytest.fixture(autouse=True)
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


@on_uvloop
async def test_a_late_listener_inherits_its_socket_and_unclaimed_ones_are_closed() -> None:
    async with upstream() as port, gateway(config(port)) as served:
        worker = served.worker()
        bound = {name: socket.create_server((_HOST, 0)) for name in ("late", "moved", "gone")}
        held = HeldListeners((name, each.dup()) for name, each in bound.items())
        heard, told = descriptors.pair()
        heard.setblocking(False)
        held.follow(heard)
        worker.listeners._announcer = Announcer(told)
        worker.listeners._inherited = Inherited(bound.items())
        address = bound["late"].getsockname()
        await worker.tick(monotonic_ns())
        await worker.listen(Listener("late", _HOST, address[1], ((_HOST, port),)))
        await worker.listen(Listener("moved", _HOST, 0, ((_HOST, port),)))
        assert worker.listeners.address("late") == address
        for _ in range(30):
            await worker.tick(monotonic_ns())
        await until_so(lambda: set(held.sockets) == {"late", "moved"})
        assert held.sockets["moved"].getsockname() == worker.listeners.address("moved")
        held.let_go()
        told.close()
