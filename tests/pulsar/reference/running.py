"""A reference broker in a thread of its own, for clients that block."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import pulsar
from tests.waiting import LONG_S

from sluicegate_pulsar.reference import ReferenceBroker, Settings

P = ParamSpec("P")
T = TypeVar("T")
TIMEOUT_MS = int(LONG_S * 1000)
"""How long a client waits for what must come. Long, for a loaded machine."""
NOTHING_MS = 300
"""How long a client waits to see that nothing comes."""


class Running:
    """A broker that runs."""

    def __init__(self, reference: ReferenceBroker, loop: asyncio.AbstractEventLoop) -> None:
        self.reference = reference
        self.service_url = reference.service_url
        self.admin_url = reference.admin_url
        self._loop = loop

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something in the broker's thread."""

        async def run() -> T:
            return function(*args, **kwargs)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(LONG_S)


@contextmanager
def running(settings: Settings | None = None, port: int = 0) -> Iterator[Running]:
    """Run a broker within the block."""
    started: Future[Running] = Future()
    stopping: list[asyncio.Event] = []

    async def serve() -> None:
        try:
            async with ReferenceBroker(settings, port=port) as reference:
                stopping.append(asyncio.Event())
                started.set_result(Running(reference, asyncio.get_running_loop()))
                await stopping[0].wait()
        except OSError as error:
            started.set_exception(error)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    broker = started.result(LONG_S)
    try:
        yield broker
    finally:
        broker.call(stopping[0].set)
        thread.join(LONG_S)


@contextmanager
def client(broker: Running, url: str = "", **options: object) -> Iterator[pulsar.Client]:
    """A quiet client of the broker within the block."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    made = pulsar.Client(url or broker.service_url, logger=logger, **options)
    try:
        yield made
    finally:
        # Its close has no time limit of its own, and no signal interrupts it.
        closing = threading.Thread(target=made.close, daemon=True)
        closing.start()
        closing.join(30)
        assert not closing.is_alive(), "the client does not close"
