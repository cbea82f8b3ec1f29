"""Requests that several wait for."""

import asyncio

import pytest

from sluicegate.pacing.asked_once import AskedOnce


class Broker:
    """Answers when it is told to, and counts requests."""

    def __init__(self) -> None:
        self.requests = 0
        self.may_answer = asyncio.Event()

    async def request(self) -> None:
        self.requests += 1
        await self.may_answer.wait()


async def test_all_who_ask_the_same_share_a_request_and_others_have_their_own() -> None:
    asked, broker = AskedOnce[None](), Broker()
    waiting = [asyncio.ensure_future(asked.ask(question, broker.request)) for question in "aab"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert broker.requests == 2
    broker.may_answer.set()
    await asyncio.gather(*waiting)
    await asked.ask("a", broker.request)
    assert broker.requests == 3


async def test_one_who_gives_up_does_not_end_the_request_of_the_others() -> None:
    asked, broker = AskedOnce[None](), Broker()
    first, second = (asyncio.ensure_future(asked.ask("a", broker.request)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not second.done()
    broker.may_answer.set()
    await second
    assert broker.requests == 1


async def test_all_who_wait_learn_of_an_error_and_the_next_one_asks_anew() -> None:
    asked, attempts = AskedOnce[None](), 0

    async def request() -> None:
        nonlocal attempts
        attempts += 1
        raise ConnectionResetError("gone")

    for found in await asyncio.gather(*(asked.ask("a", request) for _ in range(2)), return_exceptions=True):
        assert isinstance(found, ConnectionResetError)
    assert attempts == 1
    with pytest.raises(ConnectionResetError):
        await asked.ask("a", request)
    assert attempts == 2


async def test_requests_under_way_can_be_cancelled() -> None:
    asked, broker = AskedOnce[None](), Broker()
    waiting = [asyncio.ensure_future(asked.ask(question, broker.request)) for question in "ab"]
    await asyncio.sleep(0)
    asked.cancel()
    for found in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(found, asyncio.CancelledError)
