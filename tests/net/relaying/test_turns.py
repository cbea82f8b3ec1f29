"""Sessions that work in slices: one slice in each turn of the loop, in the order in which they asked."""

import asyncio
from functools import partial
from typing import Any

from tests.waiting import until_so

from sluicegate.net.relaying.turns import Turns


class Client:
    """Does so many slices, and notes each of them."""

    def __init__(self, name: str, slices: int, turns: Turns, log: list[str]) -> None:
        self.name = name
        self.left = slices
        self.turns = turns
        self.log = log

    def answered(self) -> None:
        """A turn has come."""
        self.log.append(self.name)
        self.left -= 1
        if self.left < 0:
            raise ValueError("one turn too many")
        if self.left:
            self.turns.slice(self.name, self.answered)


async def test_clients_take_turns_and_others_are_served_between_them() -> None:
    log: list[str] = []
    loop = asyncio.get_running_loop()
    turns = Turns(loop)

    def other() -> None:
        if len(log) < 10:
            log.append(".")
            loop.call_soon(other)

    clients = [Client(name, 2, turns, log) for name in "ab"]
    for client in clients:
        turns.slice(client.name, client.answered)
    loop.call_soon(other)
    await until_so(lambda: len(log) >= 10)
    assert "".join(log).replace(".", "") == "abab"
    assert "ab" not in "".join(log)
    assert "ba" not in "".join(log)
    assert turns.taken == 4


async def test_a_session_that_raises_does_not_block_others() -> None:
    log: list[str] = []
    loop = asyncio.get_running_loop()
    raised: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: raised.append(context))
    turns = Turns(loop)
    bad = Client("bad", 0, turns, log)
    good = Client("good", 1, turns, log)
    turns.slice(bad.name, bad.answered)
    turns.slice(good.name, good.answered)
    for _ in range(5):
        await asyncio.sleep(0)
    assert log == ["bad", "good"]
    assert isinstance(raised[0]["exception"], ValueError)


async def test_more_connections_give_a_user_no_more_turns() -> None:
    log: list[str] = []
    turns = Turns(asyncio.get_running_loop())
    connections = [Client("a", 3, turns, log) for _ in range(50)]
    for client in [*connections, Client("b", 3, turns, log), Client("c", 3, turns, log)]:
        turns.slice(client.name, client.answered)
    await until_so(lambda: len(log) >= 9)
    assert "".join(log[:9]) == "abc" * 3


async def test_connections_of_one_user_take_turns() -> None:
    log: list[int] = []
    turns = Turns(asyncio.get_running_loop())

    def work(number: int, left: int) -> None:
        log.append(number)
        if left > 1:
            turns.queue("a", partial(work, number, left - 1))

    for number in range(3):
        turns.queue("a", partial(work, number, 2))
    await until_so(lambda: len(log) == 6)
    assert log == [0, 1, 2, 0, 1, 2]
