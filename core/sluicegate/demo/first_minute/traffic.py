"""The process of a client: `python -m sluicegate.demo.first_minute.traffic SYSTEM`.

It plays the neighbour or the noisy producer, each in a process of its own, and reports what its client
library told it.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from sluicegate.demo.backend import demo_of
from sluicegate.demo.clients import DemoClient, DemoProducer, RefusedError, words
from sluicegate.host.children import commands, say

NEIGHBOUR_SIZE = 100
NEIGHBOUR_RATE = 20
"""Messages per second, whether or not the earlier ones are acknowledged."""
NOISY_SIZE = 8_192
_REPORT_S = 0.25


class _Neighbour:
    """Sends small messages at fixed times, and measures how long each takes from its time on."""

    def __init__(self, producer: DemoProducer) -> None:
        self._producer = producer
        self._acknowledged: list[tuple[float, float]] = []
        self._errors: list[str] = []

    async def play(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as sending:
            due = monotonic()
            while True:
                sending.create_task(self._send(due))
                due += 1 / NEIGHBOUR_RATE
                await asyncio.sleep(max(0.0, due - monotonic()))

    async def _send(self, due: float) -> None:
        try:
            await self._producer.publish(NEIGHBOUR_SIZE)
        except RefusedError as error:
            self._errors.append(str(error))
        else:
            now = monotonic()
            self._acknowledged.append((now, now - due))

    def report(self) -> Mapping[str, Any]:
        """What has happened since the last report."""
        report = {"latencies": self._acknowledged, "errors": self._errors}
        self._acknowledged, self._errors = [], []
        return report


class _Noisy:
    """Workers that each publish a message after the other, and try again a moment after a refusal."""

    def __init__(self, producers: list[DemoProducer], workers: int) -> None:
        self._producers = producers
        self._workers = workers
        self._acknowledged: list[float] = []
        self._refused: list[float] = []
        self._error = ""
        self._refused_worker = 0

    async def play(self, pause_s: float) -> None:
        """Send until cancelled; a refused worker tries again after a pause."""
        await asyncio.gather(*(self._work(number, pause_s) for number in range(self._workers)))

    async def _work(self, number: int, pause_s: float) -> None:
        producer = self._producers[number % len(self._producers)]
        while True:
            try:
                await producer.publish(NOISY_SIZE)
            except RefusedError as error:
                self._refused.append(monotonic())
                self._error = str(error)
                self._refused_worker = number % len(self._producers)
                await asyncio.sleep(pause_s)
            else:
                self._acknowledged.append(monotonic())

    def report(self) -> Mapping[str, Any]:
        """What has happened since the last report."""
        report = {
            "acknowledged": self._acknowledged,
            "refused": self._refused,
            "error": self._error,
            "client": noisy_name(self._refused_worker),
        }
        self._acknowledged, self._refused = [], []
        return report


def noisy_name(number: int) -> str:
    """The name of a noisy producer, which is its client id where the system has one."""
    return f"noisy-{number + 1}"


async def _neighbour(client: DemoClient, task: Mapping[str, Any]) -> _Neighbour:
    producer = await client.producer(task["topic"], "neighbour")
    await producer.publish(NEIGHBOUR_SIZE)
    return _Neighbour(producer)


async def _noisy(client: DemoClient, task: Mapping[str, Any]) -> _Noisy:
    made = [await client.producer(task["topic"], noisy_name(number)) for number in range(task["producers"])]
    for producer in made:
        await producer.publish(NEIGHBOUR_SIZE)
    return _Noisy(made, task["workers"])


_ROLES: Mapping[str, Callable[[DemoClient, Mapping[str, Any]], Any]] = {
    "neighbour": _neighbour,
    "noisy": _noisy,
}


async def _reporting(report: Callable[[], Mapping[str, Any]]) -> None:
    while True:
        await asyncio.sleep(_REPORT_S)
        say(report())


async def _run(system: str) -> None:
    messages = commands()
    task = await anext(messages)
    async with demo_of(system).clients(task["address"]) as client:
        played = await _ROLES[task["role"]](client, task)
        say({"ready": True})
        playing = asyncio.gather(played.play(**await anext(messages)), _reporting(played.report))
        playing.add_done_callback(_failed)
        await anext(messages, None)
        # Without closing anything: client libraries would wait for brokers, and some abort.
        sys.stdout.flush()
        os._exit(0)


def _failed(playing: "asyncio.Future[Any]") -> None:
    if not playing.cancelled() and (error := playing.exception()) is not None:
        say({"failed": words(error)})


if __name__ == "__main__":
    import uvloop

    uvloop.run(_run(sys.argv[1]))
