"""One broker and everything that its gateway needs, on one event loop: limits are exact without locks."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from time import monotonic_ns
from typing import Any

from sluicegate.broker import Listener
from sluicegate.config.models import BrokerConfig, BrokerTls
from sluicegate.engine.answers import CAUGHT, error_text
from sluicegate.engine.budget import Budget
from sluicegate.engine.faults import Fault, GateFaults
from sluicegate.engine.gates import GateCache
from sluicegate.engine.holders import tell_by
from sluicegate.engine.sink import DecisionSink
from sluicegate.gateway import held_by
from sluicegate.gateway.acceptor import Acceptor
from sluicegate.gateway.compiler import GateCompiler
from sluicegate.gateway.connections import Connections
from sluicegate.gateway.context import GatewayContext
from sluicegate.gateway.dynamics import Dynamics
from sluicegate.gateway.held_listeners import Announcer
from sluicegate.gateway.limits import Limits
from sluicegate.gateway.listening import Inherited
from sluicegate.gateway.logs import Throttle
from sluicegate.gateway.overload import Overload
from sluicegate.gateway.plugins import Plugins
from sluicegate.gateway.reachability import Reachability
from sluicegate.gateway.samples import TopicSamples
from sluicegate.gateway.slow_calls import SLOW_MS
from sluicegate.gateway.tls import TlsFiles
from sluicegate.gateway.wall_clock import WallClock
from sluicegate.gateway.watchdog import Watchdog
from sluicegate.model import PolicySet

log = logging.getLogger(__name__)

_TICK_S = 1.0
_FIRST_PROBE_S = 1.0
"""How long clients wait at the start for it to be known whether the broker answers."""
_TICKS_TO_LISTEN = 30
"""How long listeners that a front opens late, as it learns of nodes, may take over their sockets."""
_TICKS_TO_DROP = 60
"""Gates not used between two such looks are dropped: an idle topic keeps only its state."""


class Worker:
    """The gateway in front of one broker; it is the `Services` of the broker's front.

    :param config: the broker's entry.
    :param plugins: of this worker alone; some hold state.
    :param policies: policies to begin with.
    :param sink: takes every decision.
    :param facts: what was remembered before, by key.
    :param keep_fact: keeps a key and its value over restarts.
    :param on_tick: called once a second, after everything else.
    :param log_stats: gives the counters of the decision log.
    :param slow_ms: calls of plugins that take so long are told of; 0 for never.
    :param inherited: listening sockets of the process before this one; those not used are closed.
    :param announcer: is told which listeners are open.
    """

    def __init__(
        self,
        config: BrokerConfig,
        plugins: Plugins,
        policies: PolicySet,
        sink: DecisionSink,
        *,
        facts: Mapping[str, str] | None = None,
        keep_fact: Callable[[str, str], None] = lambda key, value: None,
        on_tick: Callable[[], None] = lambda: None,
        log_stats: Callable[[], Mapping[str, int]] = dict,
        slow_ms: int = SLOW_MS,
        inherited: Inherited | None = None,
        announcer: Announcer | None = None,
    ) -> None:
        self.config = config
        self.faults = GateFaults(self._report)
        driver = plugins.drivers[config.system]
        self._plugins = plugins
        self._front = driver.front(config)
        self._compiler = GateCompiler(
            plugins,
            lambda topic: driver.name_of(topic, config),
            policies,
            sink,
            self.faults,
            config.policy_defaults,
            slow_ms=slow_ms,
        )
        self._tls = TlsFiles.of_entry(config)
        self._context = GatewayContext(
            config,
            plugins,
            self._compiler,
            self.faults,
            apply=self._apply,
            tls=self._tls,
            remember=self.remember,
            recall=self.recall,
        )
        self._compiler.context = self._context
        self._dynamics = Dynamics(self._context, plugins)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._budget = Budget(config.buffer_budget)
        self._overload = Overload(config.overload, self._budget, lambda: self.gates.drop_unused())
        self._facts = dict(facts or {})
        self._keep_fact = keep_fact
        self._on_tick = on_tick
        self._log_stats = log_stats
        self._inherited = inherited or Inherited()
        self._announcer = announcer
        self._acceptors: dict[str, Acceptor] = {}
        self._connections: Connections | None = None
        self._is_ending = False
        self._ticking: asyncio.Task[None] | None = None
        self._spawned: set[asyncio.Task[None]] = set()
        self._throttle = Throttle()
        self._samples = TopicSamples()
        self._wall_clock = WallClock()
        self._lag_ns = 0
        self._watchdog: Watchdog | None = None
        self._ticks = 0
        self._policy_changes = 0
        self._front_faults = 0

    # -- what fronts may use (broker.Services) --------------------------------------------------------

    @property
    def gates(self) -> GateCache:
        """Compiled gates by topic."""
        return self._compiler.gates

    @property
    def policies(self) -> PolicySet:
        """The policies now in force."""
        return self._compiler.policies

    @property
    def budget(self) -> Budget:
        """Bytes that all sessions may hold together."""
        return self._budget

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """What a front's own connections to the broker speak."""
        return self._tls.broker

    def tls_for(self, section: BrokerTls) -> ssl.SSLContext:
        """What a section of the entry says, such as that of the gateway's own login."""
        return self._tls.context_for(section)

    def wall_ms(self, now_ns: int) -> int:
        """Wall-clock milliseconds since 1970 at a monotonic time."""
        return self._wall_clock.ms(now_ns)

    async def listen(self, listener: Listener) -> None:
        """Open a listener; one of the same name is told its new upstream, or moved to its new address.

        A worker that drains or stops opens none any more.

        :raises OSError: if the address cannot be had.
        """
        known = self._acceptors.get(listener.name)
        if known is not None:
            if (known.listener.host, known.listener.port) == (listener.host, listener.port):
                known.listener = listener
                return
            known.close()
            if self._announcer is not None:
                self._announcer.closed(listener.name)
        acceptor = await Acceptor.open(listener, self._running, self._inherited)
        if self._is_ending:  # the others have been closed meanwhile
            acceptor.close()
            return
        self._acceptors[listener.name] = acceptor
        if self._announcer is not None:
            self._announcer.opened(listener.name, acceptor.bound)
        host, port = acceptor.address
        log.info("listening on %s:%d", host, port, extra={"listener": listener.name})

    def _leave_inherited(self) -> None:
        """Let go of the listening sockets that no listener has taken."""
        for name in self._inherited.close():
            if self._announcer is not None and name not in self._acceptors:  # else it has moved
                self._announcer.closed(name)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Have work of the front done in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._spawned.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("work of the front failed: %s", error)

    def remember(self, key: str, value: str) -> None:
        """Keep a small fact over restarts."""
        if self._facts.get(key) != value:
            self._facts[key] = value
            self._keep_fact(key, value)

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts kept under a prefix, by whole key; for any thread."""
        return {key: value for key, value in tuple(self._facts.items()) if key.startswith(prefix)}

    # -- what plugins may use ---------------------------------------------------------------------

    @property
    def context(self) -> GatewayContext:
        """What plugins get of this broker."""
        return self._context

    def _apply(self, call: Callable[[], None]) -> None:
        """Have something done on the event loop; for any thread, and for nothing once it has ended."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(call)

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to serve; returns once clients are accepted.

        :raises OSError: if a listener or a TLS file cannot be had.
        """
        self._loop = loop = asyncio.get_running_loop()
        contexts = self._tls.open()
        reachability = Reachability(
            self.config.bootstrap,
            monotonic_ns(),
            heard=lambda: self._running.bytes_from_brokers,
            reached=getattr(self._front, "reached", lambda: None),
            wall_ms=self.wall_ms,
        )
        limits = Limits.of(self.config)
        self._connections = Connections(self._front, limits, contexts, loop, reachability, self._budget)
        self.spawn(self._tls.watch())
        await self._notify("sluicegate_startup")
        try:
            if (tasks := self._dynamics.start()) is not None:
                await asyncio.to_thread(tasks.wait_first)
            await self._front.start(self)
            await self._connections.prober.first(_FIRST_PROBE_S)
        except BaseException:
            await self.stop()
            raise
        self._ticking = loop.create_task(self._tick_on())
        if self.config.loop_hold_warning:
            self._watchdog = Watchdog(loop, self.config.loop_hold_warning * 1_000_000)
            self._watchdog.start()

    def replace(self, policies: PolicySet) -> None:
        """Put other policies into force, in one step."""
        old = self.policies.version
        self._compiler.replace(policies)
        self._policy_changes += 1
        log.info("policies changed", extra={"from_version": old, "to_version": policies.version})

    def renew_tls(self) -> None:
        """Read the TLS files now, even if they look unchanged."""
        self._tls.renew()

    def address(self, listener: str = "bootstrap") -> tuple[str, int]:
        """Host and port that a listener is bound to.

        :raises KeyError: if there is no such listener.
        """
        return self._acceptors[listener].address

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        """Host and port of every listener, by name."""
        return {name: acceptor.address for name, acceptor in self._acceptors.items()}

    @property
    def sockets(self) -> Mapping[str, socket.socket]:
        """What each listener listens on, by name."""
        return {name: acceptor.bound for name, acceptor in self._acceptors.items()}

    async def drain(self, deadline_s: float | None = None) -> None:
        """Accept nobody more, let what is held finish, then close all and stop.

        :param deadline_s: longest time for it; `max_hold` if not given.
        """
        self._is_ending = True
        self._inherited.close()
        for acceptor in self._acceptors.values():
            acceptor.close()
        seconds = self.config.max_hold / 1000 if deadline_s is None else deadline_s
        log.info("draining", extra={"connections": len(self._running), "deadline_s": seconds})
        await self._running.drain(seconds)
        await self.stop()

    async def stop(self) -> None:
        """Close everything at once; doing it again does nothing."""
        self._is_ending = True
        if self._ticking is not None:
            self._ticking.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticking
            self._ticking = None
        if self._watchdog is not None:
            await asyncio.to_thread(self._watchdog.stop)
        for acceptor in self._acceptors.values():
            acceptor.close()
        self._acceptors.clear()
        self._inherited.close()
        if self._connections is None:
            return
        await self._connections.abort()
        for task in tuple(self._spawned):
            task.cancel()
        await asyncio.gather(*self._spawned, return_exceptions=True)
        await asyncio.to_thread(self._dynamics.stop)
        await self._guarded("stop", self._front.stop)
        await self._notify("sluicegate_shutdown")
        self._connections = None

    @property
    def _running(self) -> Connections:
        if self._connections is None:
            raise RuntimeError("the worker is not running")
        return self._connections

    async def _tick_on(self) -> None:
        due = monotonic_ns()
        while True:
            due += int(_TICK_S * 1e9)
            await asyncio.sleep(max(0.0, (due - monotonic_ns()) / 1e9))
            now_ns = monotonic_ns()
            self._lag_ns = now_ns - due
            due = max(due, now_ns - int(_TICK_S * 1e9))
            await self.tick(now_ns)

    async def tick(self, now_ns: int) -> None:
        """What is done once a second: the wall clock followed, idle things released, time-outs applied.

        :param now_ns: monotonic time.
        """

        async def front() -> None:
            self._front.tick(now_ns)

        async def dynamics() -> None:
            self._dynamics.tick(now_ns)

        self._wall_clock.follow()
        self._running.prober.begin(now_ns)
        self._running.reachability.remind(now_ns)
        await self._guarded("dynamics", dynamics)
        await self._guarded("tick", front)
        self._ticks += 1
        is_sweep = self._ticks % _TICKS_TO_DROP == 0
        for _ in self.gates.drop_unused() if is_sweep else self.gates.drop_replaced():
            await asyncio.sleep(0)
        if self._ticks == _TICKS_TO_LISTEN:
            self._leave_inherited()
        await self._guarded("sweep", lambda: self._running.sweep(now_ns))
        await self._guarded("overload", lambda: self._overload.look(self._running))
        await self._guarded("samples", lambda: self._samples.refresh(self.gates, now_ns))
        try:
            self._on_tick()
        except Exception:  # logged; the next second is as good
            log.exception("once-a-second work failed")

    async def _guarded(self, what: str, call: Callable[[], Awaitable[None]]) -> None:
        try:
            await call()
        except Exception as error:  # counted and logged; clients are served on
            self._front_faults += 1
            if self._throttle.passes(what, monotonic_ns()) is not None:
                log.exception("%s failed: %s", what, error)

    async def _notify(self, hook: str) -> None:
        for ask in self._plugins.implementations(hook):
            own = logging.getLogger(f"sluicegate.plugin.{ask.plugin}")
            try:
                ask(log=own.info)
            except CAUGHT as error:
                self.faults.add(Fault(ask.plugin, "", "", error_text(error), opened=False))

    def _report(self, fault: Fault) -> None:
        left_out = self._throttle.passes(fault.kind, monotonic_ns())
        if left_out is not None:
            log.error(
                "plugin %s raised %s%s",
                fault.plugin,
                fault.error,
                "; skipped for 30 s" if fault.opened else "",
                extra={"topic": fault.topic, "policy": fault.policy, "left_out": left_out},
            )

    # -- what is published ------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Counters and gauges of this worker, as JSON; those of topics as they were at the last tick."""
        connections = self._running
        gates = self.gates
        try:
            front = dict(self._front.counters())
        except Exception:  # noqa: BLE001 - counted; everything else is published
            self._front_faults += 1
            front = {}
        return {
            "broker": self.config.name,
            "system": self.config.system,
            "counters": {
                **connections.counts,
                "bytes_from_clients": connections.bytes_from_clients,
                "bytes_from_brokers": connections.bytes_from_brokers,
                "policy_changes": self._policy_changes,
                "front_faults": self._front_faults,
            },
            "gauges": {
                "connections": len(connections),
                "buffered_bytes": connections.buffered_bytes,
                "held_bytes": self._budget.used,
                "buffer_budget_bytes": self._budget.limit,
                **self._overload.gauges(),
                "gates": len(gates.live) + len(gates.exempt),
                "topics": len(gates.states),
                "policy_version": self.policies.version,
                "event_loop_lag_seconds": self._lag_ns / 1e9,
                "broker_up": int(bool(connections.reachability.is_up)),
            },
            "tls": self._tls.snapshot(),
            "reachability": connections.reachability.snapshot(),
            "front": front,
            "plugin_faults": dict(self.faults.counts),
            "loop_holds": self._watchdog.holds() if self._watchdog is not None else {},
            "decision_log": self._log_stats(),
            "topics": self._samples.latest,
            "plugin_metrics": self._dynamics.snapshot(),
        }


held_by.enter()
tell_by(Worker, "tick", lambda variables: {"work": "once a second"})
tell_by(Worker, "replace", lambda variables: {"work": "policy change"})
