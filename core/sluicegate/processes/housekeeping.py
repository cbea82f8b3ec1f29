"""A worker's once-a-second work: follow the clock, drop idle gates, apply time-outs, take samples."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic_ns

from sluicegate.broker import BaseFront
from sluicegate.engine.budget import Budget
from sluicegate.net.connections import Connections
from sluicegate.net.listening.listeners import Listeners
from sluicegate.pacing.log_throttle import LineLimiter
from sluicegate.processes.overload import Overload
from sluicegate.runtime.broker_use import BrokerUse
from sluicegate.runtime.client_samples import ClientSamples
from sluicegate.runtime.host import EngineHost
from sluicegate.runtime.samples import TopicSamples

log = logging.getLogger(__name__)

_TICK_NS = 1_000_000_000
_TICKS_TO_LISTEN = 30
"""How long late listeners, such as those of newly found nodes, can take over inherited sockets."""
_TICKS_TO_DROP = 60
"""Gates that are unused for this many ticks are dropped: an idle topic keeps only its state."""


class Housekeeping:
    """The periodic work of one worker, and its results.

    :param host: the broker's policy engine.
    :param front: the broker's front.
    :param budget: what sessions may hold; smaller while memory is short.
    :param listeners: release the sockets that no listener took, and retry those whose address was taken.
    :param on_tick: called once a second, after everything else.
    """

    def __init__(
        self,
        host: EngineHost,
        front: BaseFront,
        budget: Budget,
        listeners: Listeners,
        on_tick: Callable[[], None],
    ) -> None:
        self._host = host
        self._front = front
        self._listeners = listeners
        self._on_tick = on_tick
        self.overload = Overload(host.config.overload, budget, host.gates.drop_unused)
        limits = host.limits()
        self.samples = TopicSamples(limits=limits)
        self.clients = ClientSamples(host.gates.broker, limits)
        self.use = BrokerUse(limits)
        self.lag_ns = 0
        """How late the last tick was."""
        self.front_faults = 0
        """Calls of the front, and of periodic work, that raised."""
        self._ticks = 0
        self._line_limiter = LineLimiter()
        self._ticking: asyncio.Task[None] | None = None

    def begin(self, connections: Connections) -> None:
        """Tick on the running loop from now on."""
        self._ticking = asyncio.get_running_loop().create_task(self._tick_on(connections))

    async def end(self) -> None:
        """Stop ticking; idempotent."""
        if self._ticking is not None:
            self._ticking.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticking
            self._ticking = None

    async def guarded(self, what: str, call: Callable[[], Awaitable[None]]) -> None:
        """Await a call; exceptions are counted and logged, and clients are still served."""
        try:
            await call()
        except Exception as error:
            self.front_faults += 1
            if self._line_limiter.passes(what, monotonic_ns()) is not None:
                log.exception("%s failed: %s", what, error)

    async def _sample(self, now_ns: int) -> None:
        gates = self._host.gates
        gates.broker.held.forget_silent(now_ns)
        await self.samples.refresh(gates, now_ns)
        await self.clients.refresh(now_ns)
        self.use.read(now_ns, self.clients.published)
        await self._host.compiler.rollouts.refresh(gates.states)

    async def _tick_on(self, connections: Connections) -> None:
        due = monotonic_ns()
        while True:
            due += _TICK_NS
            await asyncio.sleep(max(0.0, (due - monotonic_ns()) / 1e9))
            now_ns = monotonic_ns()
            self.lag_ns = now_ns - due
            # After a machine was suspended, one tick is late, and those that were missed are not made up for.
            due = max(due, now_ns - _TICK_NS)
            await self.tick(connections, now_ns)

    async def tick(self, connections: Connections, now_ns: int) -> None:
        """Do the work of one second.

        :param connections: of this worker.
        :param now_ns: monotonic time.
        """

        async def front() -> None:
            self._front.tick(now_ns)

        async def host() -> None:
            self._host.tick(now_ns)

        gates = self._host.gates
        self._host.wall_clock.follow()
        connections.prober.begin(now_ns)
        connections.reachability.remind(now_ns)
        await self.guarded("dynamics", host)
        await self.guarded("tick", front)
        self._ticks += 1
        is_sweep = self._ticks % _TICKS_TO_DROP == 0
        for _ in gates.drop_unused() if is_sweep else gates.drop_replaced():
            await asyncio.sleep(0)
        if self._ticks == _TICKS_TO_LISTEN:
            self._listeners.release_inherited()
        await self.guarded("listen", self._listeners.retry)
        await self.guarded("sweep", lambda: connections.sweep(now_ns))
        await self.guarded("overload", lambda: self.overload.look(connections))
        await self.guarded("samples", lambda: self._sample(now_ns))
        try:
            self._on_tick()
        except Exception:  # logged; the next tick tries again
            log.exception("once-a-second work failed")
