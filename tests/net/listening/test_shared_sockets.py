"""Workers of one broker listen on the same sockets, which their supervisor hands out."""

import asyncio
import os
import socket
from contextlib import ExitStack

import pytest
from tests.gateway.lab import on_uvloop

from sluicegate.net.listening import descriptors, held_listeners
from sluicegate.net.listening.held_listeners import Announcer, HeldListeners

_HOST = "127.0.0.1"


class Workers:
    """The supervisor's end and the worker's end of two workers."""

    def __init__(self) -> None:
        self.held = [HeldListeners(), HeldListeners()]
        self.announcers: list[Announcer] = []
        self.stack = ExitStack()
        for each in self.held:
            each.siblings = self.held
            ours, theirs = descriptors.pair()
            ours.setblocking(False)
            each.follow(ours)
            self.announcers.append(Announcer(self.stack.enter_context(theirs), sharing=True))

    async def ask(self, worker: int, name: str, port: int) -> socket.socket | None:
        found = await asyncio.to_thread(
            self.announcers[worker].shared, name, _HOST, port, socket.AddressFamily.AF_INET
        )
        return found and self.stack.enter_context(found)

    def close(self) -> None:
        for each in self.held:
            each.let_go()
        self.stack.close()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of workers, as good as none."""
    monkeypatch.setattr(held_listeners, "_ANSWER_S", 0.01)


def inode(bound: socket.socket | None) -> int:
    assert bound is not None
    return os.fstat(bound.fileno()).st_ino


@on_uvloop
async def test_a_port_of_0_is_the_same_for_all() -> None:
    workers = Workers()
    first, second = await asyncio.gather(workers.ask(0, "bootstrap", 0), workers.ask(1, "bootstrap", 0))
    other = await workers.ask(1, "node-1", 0)
    assert inode(first) == inode(second) != inode(other)
    assert first is not None
    again = await workers.ask(1, "moved", first.getsockname()[1])
    assert inode(again) == inode(first)
    workers.close()


@on_uvloop
async def test_a_listener_that_one_worker_closes_stays_open_for_the_others() -> None:
    workers = Workers()
    first, second = [await workers.ask(each, "bootstrap", 0) for each in range(2)]
    assert first is not None
    assert second is not None
    first.close()
    workers.announcers[0].closed("bootstrap")
    third = await workers.ask(0, "bootstrap", second.getsockname()[1])
    assert inode(third) == inode(second)
    workers.close()


@on_uvloop
async def test_an_address_that_is_taken_is_told() -> None:
    workers = Workers()
    taken = workers.stack.enter_context(socket.create_server((_HOST, 0)))
    with pytest.raises(OSError, match="Address already in use"):
        await workers.ask(0, "bootstrap", taken.getsockname()[1])
    workers.close()


@on_uvloop
async def test_without_a_supervisor_nobody_answers() -> None:
    workers = Workers()
    workers.held[0].let_go()
    assert await workers.ask(0, "bootstrap", 0) is None
    workers.close()


@pytest.mark.usefixtures("patience")
@on_uvloop
async def test_an_answer_that_comes_too_late_is_not_taken_for_that_to_the_next_request() -> None:
    workers = Workers()
    held = workers.held[0]
    channel, held._channel = held._channel, None
    assert channel is not None
    asyncio.get_running_loop().remove_reader(channel)  # it hangs
    assert await workers.ask(0, "late", 0) is None
    held.follow(channel)
    for _ in range(1_000):
        if (found := await workers.ask(0, "next", 0)) is not None:
            break
    assert inode(found) == inode(held.sockets["next"])
    workers.close()
