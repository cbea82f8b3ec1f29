"""Serves one broker on one event loop, so limits are exact without locks."""

import asyncio
import json
import logging
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from time import monotonic_ns
from typing import Any

from sluicegate.broker import UNIQUE_FACT, Listener
from sluicegate.config.models import BrokerConfig, BrokerTls
from sluicegate.engine.budget import Budget
from sluicegate.engine.gate import DecisionSink
from sluicegate.engine.gates import GateCache
from sluicegate.engine.state import BrokerState
from sluicegate.leasing.holder import Holder
from sluicegate.model import ConnectionEvent, PolicySet
from sluicegate.net.background import BackgroundTasks
from sluicegate.net.connections import Connections
from sluicegate.net.dial_rule import DialRule
from sluicegate.net.dialling import Dialler
from sluicegate.net.limits import Limits
from sluicegate.net.listening.held_listeners import Announcer
from sluicegate.net.listening.listeners import Listeners
from sluicegate.net.listening.sharing import Siblings
from sluicegate.net.listening.sockets import Inherited
from sluicegate.net.reachability import Reachability
from sluicegate.processes.housekeeping import Housekeeping
from sluicegate.processes.watchdog import Watchdog
from sluicegate.runtime.broker_use import use_of_connections
from sluicegate.runtime.facts import Facts
from sluicegate.runtime.held_samples import held_now
from sluicegate.runtime.host import EngineHost
from sluicegate.runtime.plugins import Plugins
from sluicegate.runtime.reported import BUDGETS_FACT
from sluicegate.runtime.shared_runs import TurnsElsewhere
from sluicegate.runtime.slow_calls import SLOW_MS

log = logging.getLogger(__name__)

_FIRST_PROBE_S = 1.0
"""How long the start waits for the first probes of the broker."""


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
    :param slow_ms: plugin calls that take this long are logged; 0 for never.
    :param inherited: listening sockets of the process before this one; those not used are closed.
    :param announcer: reports which listeners are open.
    :param accepting: whether clients are accepted from the start on; otherwise from `accept` on.
    :param holder: leases what limits it shares with others; None if it has them for itself.
    :param sharing: decides which worker of the broker serves a client; None if there is only one.
    :param tell: tells the others something, by `hear`: a kind and JSON.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _connections: Connections | None = None
    _watchdog: Watchdog | None = None
    _policy_changes = 0
    _standing: str | None = None
    """How shared limits stand, as was told last."""

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
        accepting: bool = True,
        holder: Holder | None = None,
        sharing: Siblings | None = None,
        tell: Callable[[str, Mapping[str, Any]], None] = lambda kind, content: None,
    ) -> None:
        self.config = config
        self._holder = holder
        self._sharing = sharing
        self._tell = tell
        self._host = EngineHost(
            config,
            plugins,
            policies,
            sink,
            apply=self._apply,
            facts=Facts(facts or {}, keep_fact),
            driver=plugins.drivers[config.system],
            slow_ms=slow_ms,
            broker=BrokerState() if holder is None else BrokerState(holder.tokens, holder.places),
        )
        self._packages = plugins.packages
        self._front = plugins.front(config)
        self.gates: GateCache = self._host.gates
        self.budget = Budget(config.buffer_budget)
        """Bytes that all sessions may hold together."""
        self.listeners = Listeners(inherited, announcer, accepting=accepting)
        self._background = BackgroundTasks("the front")
        self._housekeeping = Housekeeping(self._host, self._front, self.budget, self.listeners, self._ticked)
        self._on_tick = on_tick
        self._log_stats = log_stats

    # -- what fronts may use (broker.Services) --------------------------------------------------------

    @property
    def policies(self) -> PolicySet:
        """The effective policies."""
        return self._host.policies

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """TLS for the front's own connections to the broker; None for plain text."""
        return self._host.tls.broker

    @property
    def broker_tls_renewals(self) -> int:
        """How often the files of `broker_tls` were read anew."""
        return self._host.tls.broker_renewals

    def tls_for(self, section: BrokerTls) -> ssl.SSLContext:
        """The TLS files of a section of the entry, such as the gateway's own login."""
        return self._host.tls.context_for(section)

    def wall_ms(self, now_ns: int) -> int:
        """Wall-clock milliseconds since 1970 at a monotonic time."""
        return self._host.wall_clock.ms(now_ns)

    async def listen(self, listener: Listener) -> None:
        """Open a listener; one of the same name gets the new upstream, or moves to its new address.

        A worker that drains or stops opens none.

        :raises OSError: if the address is not available.
        """
        await self.listeners.open(listener, self._sharing or self._running)

    def stop_listening(self, name: str) -> None:
        """Close the listener of this name, if there is one; its clients stay connected."""
        self.listeners.close_one(name)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work of the front in the background."""
        self._background.spawn(work)

    def remember(self, key: str, value: str) -> None:
        """Keep a small fact over restarts."""
        self._host.facts.remember(key, value)

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts kept under a prefix, by whole key; for any thread."""
        return self._host.facts.recall(prefix)

    async def learn(self, key: str, value: str) -> None:
        """Take over a fact that another worker of the broker remembered."""
        self._host.facts.learn(key, value)
        if value and key.startswith(UNIQUE_FACT):
            await self.hear(UNIQUE_FACT, {"key": key, "value": value})

    @property
    def siblings(self) -> int:
        """How many other workers serve the broker."""
        return 0 if self._sharing is None else self._sharing.others

    def tell_siblings(self, kind: str, content: Mapping[str, Any]) -> None:
        """Tell the other workers of the broker something small, which may be lost."""
        self._tell(kind, content)

    async def hear(self, kind: str, content: Mapping[str, Any]) -> None:
        """Another worker of the broker tells the front something."""

        async def heard() -> None:
            self._front.heard(kind, content)

        await self._housekeeping.guarded("heard", heard)

    def _apply(self, call: Callable[[], None]) -> None:
        """Run a call on the event loop; for any thread. Has no effect once the loop has ended."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(call)

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to serve; returns once clients are accepted, or can be.

        :raises OSError: if a listener cannot be opened or a TLS file cannot be read.
        """
        self._loop = loop = asyncio.get_running_loop()
        contexts = self._host.tls.open()
        if self._holder is not None:
            self._holder.start()
        reachability = Reachability(
            self.config.bootstrap,
            monotonic_ns(),
            heard=lambda: self._running.bytes_from_brokers,
            reached=self._front.reached,
            wall_ms=self.wall_ms,
        )
        limits = Limits.of(self.config)
        rule = DialRule(self.config, lambda: self.listeners.addresses.values())
        dialler = Dialler(contexts, limits.dial_s, loop, rule.refusal)
        self._connections = Connections(
            self._front, limits, contexts, loop, reachability, self.budget, dialler=dialler
        )
        if self._sharing is not None:
            self._sharing.serve_by(self._connections)
        self.spawn(self._host.tls.watch())
        self._host.notify("sluicegate_startup")
        try:
            turns = None if self._holder is None else TurnsElsewhere(self._holder, loop)
            if (tasks := self._host.dynamics.start(turns)) is not None:
                await asyncio.to_thread(tasks.wait_first)
            await self._front.start(self)
            await self._connections.prober.first(_FIRST_PROBE_S)
        except BaseException:
            await self.stop()
            raise
        if self._sharing is not None:
            self._sharing.begin(self._connections)
        self._housekeeping.begin(self._connections)
        if self.config.loop_hold_warning:
            self._watchdog = Watchdog(loop, self.config.loop_hold_warning * 1_000_000, self._packages)
            self._watchdog.start()

    def replace(self, policies: PolicySet) -> None:
        """Replace all policies in one step."""
        self._host.replace(policies)
        self._policy_changes += 1

    def renew_tls(self) -> None:
        """Read the TLS files now, even if they look unchanged."""
        self._host.tls.renew()

    async def drain(self, deadline_s: float | None = None) -> None:
        """Accept no more clients, let held operations finish, then close all and stop.

        :param deadline_s: longest time for it; `max_hold` if not given.
        """
        self.listeners.close()
        if self._sharing is not None:
            self._sharing.close()
        seconds = self.config.max_hold / 1000 if deadline_s is None else deadline_s
        log.info("draining", extra={"connections": len(self._running), "deadline_s": seconds})
        await self._running.drain(seconds)
        await self.stop()

    async def stop(self) -> None:
        """Close everything at once; idempotent."""
        await self._housekeeping.end()
        if self._watchdog is not None:
            await asyncio.to_thread(self._watchdog.stop)
        self.listeners.forget()
        if self._sharing is not None:
            self._sharing.close()
        if self._holder is not None:
            await self._holder.close()
        if self._connections is None:
            return
        await self._connections.abort()
        await self._background.cancel()
        await asyncio.to_thread(self._host.dynamics.stop)
        await self._housekeeping.guarded("stop", self._front.stop)
        self._host.notify("sluicegate_shutdown")
        self._connections = None

    @property
    def _running(self) -> Connections:
        if self._connections is None:
            raise RuntimeError("the worker is not running")
        return self._connections

    async def tick(self, now_ns: int) -> None:
        """Do the work of one second now.

        :param now_ns: monotonic time.
        """
        await self._housekeeping.tick(self._running, now_ns)

    def _ticked(self) -> None:
        standing = "" if self._holder is None else json.dumps(self._holder.standing())
        if standing != self._standing:  # other workers of the broker tell theirs under the same key
            self._standing = standing
            self._host.facts.remember(BUDGETS_FACT, standing)
        self._on_tick()

    # -- for metrics ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Counters and gauges of this worker, as JSON; those of topics and clients as of the last tick.

        `use` of the broker, and of each of `topics` and `principals`, has the form that `runtime.use`
        describes; `held` is that of `held_now`.
        """
        connections = self._running
        host = self._host
        housekeeping = self._housekeeping
        front: Mapping[str, int] = {}
        notes: Sequence[str] = ()
        try:
            front = dict(self._front.counters())
            notes = list(self._front.notes)
        except Exception:  # noqa: BLE001 - counted; everything else is published
            housekeeping.front_faults += 1
        return {
            "broker": self.config.name,
            "system": self.config.system,
            "counters": {
                **connections.counts,
                str(ConnectionEvent.BYTES_FROM_CLIENTS): connections.bytes_from_clients,
                str(ConnectionEvent.BYTES_FROM_BROKERS): connections.bytes_from_brokers,
                str(ConnectionEvent.POLICY_CHANGE): self._policy_changes,
                str(ConnectionEvent.FRONT_FAULT): housekeeping.front_faults,
            },
            "gauges": self._gauges(connections),
            "tls": host.tls.snapshot(),
            "reachability": {**connections.reachability.snapshot(), "notes": notes},
            "front": front,
            "plugin_faults": dict(host.faults.counts),
            "plugin_calls": host.compiler.slow.snapshot(),
            "loop_holds": self._watchdog.holds() if self._watchdog is not None else {},
            "decision_log": self._log_stats(),
            "topics": housekeeping.samples.latest,
            "use": {**housekeeping.use.latest, **self._use_of_connections(connections)},
            "principals": housekeeping.clients.principals,
            "clients": housekeeping.clients.clients,
            "held": held_now(host.gates.broker.held, self.wall_ms),
            "rollouts": host.compiler.rollouts.snapshot(),
            "plugin_metrics": host.context.metrics.snapshot(),
            **({"budgets": self._holder.snapshot()} if self._holder is not None else {}),
        }

    def _use_of_connections(self, connections: Connections) -> dict[str, dict[str, Any]]:
        most = connections.limits.max_connections
        return use_of_connections(len(connections), most, is_set=self.config.max_connections > 0)

    def _gauges(self, connections: Connections) -> dict[str, float]:
        gates, housekeeping = self._host.gates, self._housekeeping
        return {
            "connections": len(connections),
            "buffered_bytes": connections.buffered_bytes,
            "held_bytes": self.budget.used,
            "buffer_budget_bytes": self.budget.limit,
            **housekeeping.overload.gauges(),
            "gates": len(gates.live) + len(gates.exempt),
            "topics": len(gates.states),
            "policy_version": self._host.policies.version,
            "event_loop_lag_seconds": housekeeping.lag_ns / 1e9,
            "broker_up": int(bool(connections.reachability.is_up)),
        }
