"""The admin endpoint with the lab's supervisor on a port of this host, in a thread of its own."""

import asyncio
import math
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.admin.lab import KEY, SNAPSHOT, Supervised, topic_sample
from tests.waiting import LONG_S, until

from sluicegate.admin.resources import admin_routes
from sluicegate.metrics.http import AdminServer

HOSTILE = (
    "<script>document.title='gone'</script>",
    "<img src=x onerror=document.title='gone'>",
    "\x1b[31mred\u202egnissap",
    "long-" * 60,
)


def snapshot(began_s: float, now_s: float, names: Sequence[str]) -> dict[str, Any]:
    """What a busy worker tells: totals that grow, and names that its clients chose.

    :param began_s: when the first requests that are held came.
    """
    made: dict[str, Any] = {**SNAPSHOT, "topics": {}}
    for place, name in enumerate(("orders.eu", "orders.us", "payments.cards", *names)):
        sent = int(now_s % 100_000 * 100 * (place + 1))
        sample = topic_sample(allowed_messages=sent, rejected=sent // 50, delayed=sent // 20)
        sample["producers"] = 2 + place
        used = round((62 - 7 * place) * (1 + 0.5 * math.sin(now_s / (17 + 6 * place) + place)), 1)
        use = {**sample["use"]["max_publish_rate"], "used_1s": used, "in_force": 100}
        made["topics"][name] = {**sample, "use": {"max_publish_rate": use}}
    since_ms = int(began_s * 1000) - 2_500
    held = {"operation": "publish", "principal": "User:ann", "policy": "max_publish_rate"}
    made["held"] = [
        {**held, "client": name, "topic": name, "since_ms": since_ms - 700 * place}
        for place, name in enumerate(("orders.eu", *names))
    ]
    return made


class Busy(Supervised):
    """A gateway with much to tell."""

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        super().__init__(directory)
        self._names = names
        self._began_s = time.time_ns() / 1e9

    def snapshots(self) -> list[Mapping[str, Any]]:
        """Of a busy worker."""
        return [snapshot(self._began_s, time.time_ns() / 1e9, self._names)]

    def facts(self, broker: str) -> Mapping[str, str]:
        """A factor, and an adaptive controller with a hostile topic."""
        load = f'{{"value": {0.5 + 0.1 * (int(time.monotonic()) % 4)}, "why": "<b>cpu</b>"}}'
        return {"factor.load": load, "adaptive.memory": '{"pressure": 0.31, "topics": {"<i>x": {"rate": 9}}}'}


class Served:
    """A running endpoint.

    :param directory: of its file, store and journal.
    :param port: port; 0 takes a free one.
    :param names: of further topics.
    """

    def __init__(self, directory: Path, port: int = 0, names: Sequence[str] = HOSTILE) -> None:
        self._directory, self._port, self._names = directory, port, names
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._error: BaseException | None = None
        self.address = ("", 0)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        until(lambda: self.address[1] or self._error)
        assert self._error is None, self._error

    @property
    def url(self) -> str:
        """Of the page."""
        return f"http://{self.address[0]}:{self.address[1]}/"

    def stop(self) -> None:
        """Stop serving."""
        if self._thread.is_alive():
            assert self._loop is not None
            assert self._stopping is not None
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(LONG_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - told to the test
            self._error = error

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        supervised = Busy(self._directory, self._names)
        routes = admin_routes(supervised, KEY, supervised.callers)
        server = AdminServer(supervised, "127.0.0.1", self._port, routes=routes)
        server.start()
        self.address = server.address
        await self._stopping.wait()
        await server.stop()
        # A browser's spare connection would be answered until the process ends, which here goes on.
        for connection in list(server._server.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
        supervised.watch.close()
