"""Sessions that work in slices: one slice in each turn of the loop, in the order in which they asked."""

import asyncio
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
            self.turns.slice(self.answered)


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
        turns.slice(client.answered)
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
    turns.slice(bad.answered)
    turns.slice(good.answered)
    for _ in range(5):
        await asyncio.sleep(0)
    assert log == ["bad", "good"]
    assert isinstance(raised[0]["exception"], ValueError)
