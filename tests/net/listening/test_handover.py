"""Hand-over of listening sockets between two ends in this process."""

import asyncio
import os
import socket
from pathlib import Path
from threading import Thread

import pytest
from tests.gateway.lab import on_uvloop
from tests.waiting import until_so

from sluicegate.net.listening import descriptors
from sluicegate.net.listening.handover import SUPERVISOR, HandoverServer, Offered, Predecessor, predecessors
from sluicegate.net.listening.latch import Latch


class Old:
    """The process that hands over."""

    def __init__(self, place: Path, count: int = 1, name: str = SUPERVISOR) -> None:
        self.sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self.is_willing = True
        self.ends = Latch()
        self.server = HandoverServer(place, name, self._offer, self.ends)

    def _offer(self) -> Offered | None:
        offered = [("main", f"node-{place}", bound) for place, bound in enumerate(self.sockets)]
        return offered if self.is_willing else None

    def close(self) -> None:
        self.server.close()
        self.ends.close()
        for bound in self.sockets:
            bound.close()


async def asked(place: Path, *, replace: bool = True) -> list[Predecessor]:
    return await asyncio.to_thread(lambda: predecessors(place, replace=replace))


def is_empty(place: Path) -> bool:
    return not any(place.iterdir())


def leave(*found: Predecessor) -> None:
    for one in found:
        one.release()


@on_uvloop
async def test_the_successor_serves_clients_from_the_listen_queue(tmp_path: Path) -> None:
    place = tmp_path / ("long" * 20) / ("longer" * 20)  # longer than the address of a Unix socket may be
    old = Old(place)
    address = old.sockets[0].getsockname()
    with socket.create_connection(address) as client:
        [found] = await asked(place)
        found.retire()
        assert old.ends.is_set
        assert old.server.successor_pid == os.getpid()
        old.close()
        [(broker, name, bound)] = found.sockets
        assert (broker, name) == ("main", "node-0")
        served, peer = bound.accept()
        assert peer == client.getsockname()
        served.close()
    with socket.create_connection(address):
        pass
    leave(found)
    assert is_empty(place)


@on_uvloop
async def test_sockets_are_handed_over_in_several_messages(tmp_path: Path) -> None:
    old = Old(tmp_path, descriptors.MOST + 1)
    [found] = await asked(tmp_path)
    assert [bound.getsockname() for _, _, bound in found.sockets] == [
        bound.getsockname() for bound in old.sockets
    ]
    leave(found)
    old.close()


@on_uvloop
async def test_a_successor_that_exits_before_it_serves_changes_nothing(tmp_path: Path) -> None:
    old = Old(tmp_path)
    [found] = await asked(tmp_path)
    assert await asked(tmp_path) == [], "one at a time"
    leave(found)
    await until_so(lambda: old.server._successor is None)
    assert not old.ends.is_set
    [again] = await asked(tmp_path)
    leave(again)
    old.close()


@on_uvloop
async def test_a_gateway_that_was_replaced_offers_nothing(tmp_path: Path) -> None:
    old = Old(tmp_path)
    [found] = await asked(tmp_path)
    found.retire()
    leave(found)
    await until_so(lambda: old.server._successor is None)
    assert await asked(tmp_path) == []
    old.close()


@on_uvloop
async def test_a_running_gateway_is_replaced_only_on_request(tmp_path: Path) -> None:
    old, orphan = Old(tmp_path), Old(tmp_path, name="worker-1")
    [found] = await asked(tmp_path, replace=False)
    assert found.sockets[0][2].getsockname() == orphan.sockets[0].getsockname()
    leave(found)
    orphan.is_willing = False
    assert await asked(tmp_path, replace=False) == []
    old.close()
    orphan.close()


@on_uvloop
async def test_the_stale_handover_socket_of_a_dead_gateway_is_removed(tmp_path: Path) -> None:
    old = Old(tmp_path)
    left = tmp_path / "left"
    (tmp_path / f"{SUPERVISOR}.sock").rename(left)
    old.close()
    left.rename(tmp_path / f"{SUPERVISOR}.sock")
    assert await asked(tmp_path) == []
    assert is_empty(tmp_path)


@on_uvloop
async def test_only_the_owner_may_connect_and_an_old_gateway_leaves_the_new_socket(tmp_path: Path) -> None:
    place = tmp_path / "handover"
    old = Old(place)
    path = place / f"{SUPERVISOR}.sock"
    assert place.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    new = Old(place)
    old.close()
    [found] = await asked(place)
    assert found.sockets[0][2].getsockname() == new.sockets[0].getsockname()
    leave(found)
    new.close()


@pytest.mark.parametrize("nonsense", [b"[]", b"{", b"{}"])
def test_a_malformed_handover_is_ignored(tmp_path: Path, nonsense: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(tmp_path / "worker-1.sock"))
        server.listen()

        def answer() -> None:
            line, _ = server.accept()
            line.send(nonsense)
            line.close()

        thread = Thread(target=answer)
        thread.start()
        assert predecessors(tmp_path, replace=True) == []
        thread.join()
