"""What befalls a fleet: workers, gateways and the store are killed or stopped, one after the other."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.harness.fleet_clients import FleetClient
from benchmarks.harness.fleet_processes import Fleet, FleetGateway

_PATIENCE_S = 300
_LOOK_S = 0.02
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, with its times in seconds (monotonic)."""

    what: str
    began_s: float
    ended_s: float
    back_s: float
    """How long after its end messages of every gateway were answered again."""


@dataclass(frozen=True, slots=True)
class Events:
    """All that can befall a fleet.

    :param stop_s: how long something is stopped.
    """

    fleet: Fleet
    stop_s: float

    def all(self) -> Sequence[tuple[str, Callable[[], Awaitable[None]]]]:
        """Each with its name, in the order in which they happen."""
        one, two = self.fleet.gateways
        return (
            ("a worker is killed", partial(self._kill_worker, one)),
            ("a worker is stopped", partial(self._stop_worker, two)),
            ("a gateway is killed", partial(self._kill_gateway, one)),
            ("the store is stopped", self._stop_store),
            ("the store is killed and empty", self._kill_store),
        )

    async def _kill_worker(self, gateway: FleetGateway) -> None:
        os.kill(gateway.workers()[0], signal.SIGKILL)
        await self._whole()

    async def _stop_worker(self, gateway: FleetGateway) -> None:
        pid = gateway.workers()[0]
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(self.stop_s)
        os.kill(pid, signal.SIGCONT)

    async def _kill_gateway(self, gateway: FleetGateway) -> None:
        await asyncio.to_thread(gateway.kill)
        await asyncio.to_thread(gateway.start_again)
        await self._whole()

    async def _stop_store(self) -> None:
        self.fleet.store.pause()
        await asyncio.sleep(self.stop_s)
        self.fleet.store.resume()

    async def _kill_store(self) -> None:
        await asyncio.to_thread(self.fleet.store.kill)
        await asyncio.sleep(self.stop_s)
        await asyncio.to_thread(self.fleet.store.start)
        await self._whole()

    async def _whole(self) -> None:
        await eventually(lambda: asyncio.to_thread(self.fleet.is_whole), "all workers are members")


async def happened(
    what: str, happen: Callable[[], Awaitable[None]], clients: Sequence[FleetClient], tell: Tell
) -> Event:
    """Have something happen, and wait until messages pass through every gateway again.

    :raises RuntimeError: if they do not.
    """
    began_s = time.monotonic()
    await happen()
    ended_s = time.monotonic()

    async def passes() -> bool:
        answered = {each.address for each in clients if each.last_answer_s > ended_s}
        return answered == {each.address for each in clients}

    await eventually(passes, f"messages pass again after: {what}")
    event = Event(what, began_s, ended_s, time.monotonic() - ended_s)
    tell(f"{what}: {ended_s - began_s:.1f} s, and messages pass after {event.back_s:.2f} s more")
    return event


async def eventually(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Return once something holds.

    :raises RuntimeError: if it does not in minutes.
    """
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            if await holds():
                return
        except OSError:  # a gateway that is being started does not tell its metrics
            pass
        if time.monotonic() > until_s:
            raise RuntimeError(f"not within {_PATIENCE_S} s: {what}")
        await asyncio.sleep(_LOOK_S)
