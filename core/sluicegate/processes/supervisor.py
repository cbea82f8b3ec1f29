"""Owns configuration, store and the life of the workers; no byte of a client passes through it."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import PolicySet, version_text
from sluicegate.net.background import BackgroundTasks
from sluicegate.net.listening.handover import Offered
from sluicegate.net.listening.latch import Term
from sluicegate.net.listening.sockets import Inherited
from sluicegate.processes.child import WorkerFailedError, WorkerProcess
from sluicegate.processes.merging import merged
from sluicegate.processes.rollout_watch import RolloutWatch
from sluicegate.processes.service_watchdog import notify_watchdog
from sluicegate.processes.sibling_workers import worker_processes
from sluicegate.processes.web import SupervisedServices, WebListener, open_listener
from sluicegate.runtime import logs
from sluicegate.runtime.changing import Wanted
from sluicegate.runtime.compacting import Compactor
from sluicegate.runtime.effective import BrokerPolicies
from sluicegate.runtime.facts import keep_for_workers
from sluicegate.runtime.policies_in_force import PolicyWatch
from sluicegate.runtime.policy_desk import PolicyDesk
from sluicegate.runtime.rollouts import Rollouts
from sluicegate.store import Author

log = logging.getLogger(__name__)

_POLL_S = 0.25
"""How often file and store are checked."""
_MARGIN_S = 2.0
_COMPACTION_S = 10.0
"""Longest time at the end for the last Parquet files of the decision log."""

_NO_REPORT: Mapping[str, Any] = {"up": False, "since_ms": None, "reason": "its worker does not report"}

Result = TypeVar("Result")


class Supervisor:
    """The worker processes of each broker in the file.

    :param watch: file and store; a separate thread owns it from here on.
    :param drain_s: longest time for draining; the longest `max_hold` and a little more if None.
    :param taken: listening sockets of the gateway before this one: of its workers, by broker.
    :param own: its others; web sites take theirs from here.
    :param term: when workers and web sites accept clients; always if None.
    """

    def __init__(
        self,
        watch: PolicyWatch,
        drain_s: float | None = None,
        taken: Mapping[str, Sequence[tuple[str, socket.socket]]] | None = None,
        own: Inherited | None = None,
        term: Term | None = None,
    ) -> None:
        self._term = term or Term.begun()
        self._watch = watch
        self._taken = taken or {}
        self._own = own or Inherited()
        brokers = watch.loaded.config.brokers
        longest_hold_s = max(broker.max_hold for broker in brokers) / 1000
        self._drain_s = longest_hold_s + _MARGIN_S if drain_s is None else drain_s
        # File and store may be slow (a locked database, a network file system): never on the event loop.
        self._thread = ThreadPoolExecutor(1, "sluicegate-watch")
        rollouts = Rollouts(watch.loaded.config.rollout)
        self._desk = PolicyDesk(watch, self._live_topics, rollouts)
        self.rollouts = rollouts
        """The policies that are rolled out."""
        self._rollout_watch = RolloutWatch(rollouts, self.snapshots)
        self._compactor = Compactor(watch.loaded.config)
        self._policies: dict[str, PolicySet] = {}
        self._in_force: dict[str, BrokerPolicies] = {}
        self._entries = {broker.name: broker for broker in brokers}
        """The brokers' entries that the workers were started with, whatever the file says since."""
        self.file_digest = ""
        """Of the file in force; empty while the gateway starts."""
        self.sites: list[WebListener] = []
        self._facts: dict[str, dict[str, str]] = {}
        self._workers: dict[str, WorkerProcess] = {}
        self._tasks = BackgroundTasks("the supervisor")
        self._reload = asyncio.Event()
        self._taking_over = asyncio.Lock()
        self._sent_changes = watch.changes
        """Changes that the workers have."""
        self._ending = False

    @property
    def workers(self) -> list[WorkerProcess]:
        """The worker processes."""
        return list(self._workers.values())

    async def start(self) -> None:
        """Start all workers; returns once all of them can accept clients.

        :raises WorkerFailedError: if one cannot; all are ended then.
        """
        await self._read_watch()
        timeout_s = self._watch.loaded.config.worker_timeout / 1000
        for broker in self._watch.loaded.config.brokers:
            taken = self._taken.get(broker.name, ())
            for worker in worker_processes(
                broker,
                self._content_for(broker.name),
                self._keeper(broker.name),
                taken,
                timeout_s,
                self._term,
            ):
                self._workers[worker.name] = worker
                self._tasks.spawn(worker.keep_running())
        for worker in self.workers:
            try:
                await worker.began
            except WorkerFailedError as error:
                await self.end(0)
                raise WorkerFailedError(f"broker {worker.broker!r}: {error}") from None
        await self._open_sites()
        self._term.begins.when_set(self._start_sites)
        self._tasks.spawn(notify_watchdog())
        self._tasks.spawn(self._watch_changes())
        self._tasks.spawn(self._compactor.watch())

    def reload(self) -> None:
        """Read file, store and TLS files again, now."""
        self._reload.set()
        for worker in self.workers:
            worker.tell("renew_tls")
        for site in self.sites:
            site.renew_tls()

    async def end(self, drain_s: float | None = None) -> None:
        """Drain and end all workers, then close file and store; idempotent.

        :param drain_s: longest time for draining; as configured if None.
        """
        if self._ending:
            return
        self._ending = True
        seconds = self._drain_s if drain_s is None else drain_s
        await asyncio.gather(
            *(worker.end(seconds) for worker in self.workers), *(site.stop() for site in self.sites)
        )
        await self._tasks.cancel()
        for worker in self.workers:
            if worker.began.done() and not worker.began.cancelled():
                worker.began.exception()  # `start` has reported it already
        if self._workers:
            # After the workers, which have ended their spools now.
            await self._compactor.finish(_COMPACTION_S)
        await self._in_thread(self._watch.close)
        self._thread.shutdown()

    def kill(self) -> None:
        """Kill all workers, and wait for nothing else."""
        self._compactor.kill()
        for worker in self.workers:
            worker.kill()

    # -- for the administrative endpoint ---------------------------------------------------------------

    def snapshots(self) -> list[Mapping[str, Any]]:
        """What the workers of each broker reported last, as one snapshot."""
        now = [worker.snapshot for worker in self.workers if worker.snapshot is not None]
        served = {snapshot["broker"] for snapshot in now}
        before = [worker.counted_before for worker in self.workers if worker.broker in served]
        return merged([*now, *(totals for totals in before if totals is not None)])

    def status(self) -> dict[str, Any]:
        """The supervisor's own state, as JSON."""
        return {
            "workers": {
                worker.name: {
                    **({} if worker.index is None else worker.labels),
                    "up": worker.ready,
                    "restarts": worker.restarts,
                    "pid": worker.pid,
                    "log_lines_left_out": (worker.snapshot or {}).get("log_lines_left_out", 0),
                }
                for worker in self.workers
            },
            "log_lines_left_out": logs.left_out(),
            "store_facts_waiting": self._watch.facts_waiting,
            "store_facts_lost": self._watch.facts_lost,
            "store_facts_conflicting": self._watch.facts_conflicting,
            "store_age_seconds": self._watch.store_age_s,
            "store_copy_in_use": self._watch.copy_in_use,
            "config_last_reload_successful": self._watch.successful,
            "config_reloads_failed": self._watch.failures,
            "config_version": self._watch.version,
            "rollout_fallbacks": self.rollouts.fallbacks,
        }

    def not_ready(self) -> list[str]:
        """Why clients are not all served; empty if they are, be it by the next gateway."""
        if self._ending:
            return ["draining"]
        if self._term.ends.is_set:
            return []
        return [f"worker of broker {w.name!r} {w.trouble}" for w in self.workers if w.trouble] or (
            [] if self._workers else ["starting"]
        )

    def brokers(self) -> dict[str, Mapping[str, Any]]:
        """Whether each broker can be reached, by name; values as from `Reachability.snapshot`."""
        known: dict[str, Mapping[str, Any]] = {}
        for worker in self.workers:
            reports = worker.snapshot and (worker.ready or self._term.ends.is_set)
            state = worker.snapshot["reachability"] if worker.snapshot and reports else _NO_REPORT
            if worker.broker not in known or not known[worker.broker]["up"]:
                known[worker.broker] = state
        return known

    @property
    def policies_in_force(self) -> Mapping[str, BrokerPolicies]:
        """The policies now in force, by the names of brokers that have a worker."""
        served = {worker.broker for worker in self.workers}
        return {name: policies for name, policies in self._in_force.items() if name in served}

    @property
    def state_dir(self) -> str:
        """The gateway's state directory."""
        return self._watch.loaded.config.state_dir

    # -- for the next gateway --------------------------------------------------------------------------

    def listening(self) -> Offered | None:
        """The listening sockets of web sites and workers; None while this gateway starts or ends."""
        if self._ending or not all(worker.began.done() for worker in self.workers):
            return None
        sites = [("", site.server.name, site.server.bound) for site in self.sites]
        # Workers of a broker hold duplicates of the same sockets.
        shared = {
            (worker.broker, name): bound
            for worker in self.workers
            for name, bound in worker.held.sockets.items()
        }
        return sites + [(broker, name, bound) for (broker, name), bound in shared.items()]

    # -- for web sites ---------------------------------------------------------------------------------

    def resolver(self, broker: str) -> Resolver:
        """The policies in force for a broker."""
        return self._in_force[broker].resolver

    def facts(self, broker: str) -> Mapping[str, str]:
        """The facts of a broker's front."""
        return self._facts[broker]

    async def change(self, wanted: Sequence[Wanted], author: Author, seen: int | None = None) -> int:
        """Set policies in the store and send them to the workers; as `PolicyWatch.change`."""
        number = await self._in_thread(self._watch.change, wanted, author, seen)
        await self._take_over(force=False)
        return number

    async def at_desk(self, call: Callable[[PolicyDesk], Result]) -> Result:
        """Make a call where policies are read and changed; what it changes is in force afterwards."""
        result = await self._in_thread(call, self._desk)
        async with self._taking_over:
            await self._send_changes()  # the desk has checked file and store
        return result

    def _live_topics(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        return {snapshot["broker"]: snapshot["topics"] for snapshot in self.snapshots()}

    async def _open_sites(self) -> None:
        for broker in self._watch.loaded.config.brokers:
            try:
                services = partial(SupervisedServices, self)
                site = open_listener(self._watch.plugins, broker, services, self._own)
            except OSError as error:
                await self.end(0)
                text = error.strerror or str(error)
                raise WorkerFailedError(f"broker {broker.name!r}: {text}") from None
            if site is not None:
                self.sites.append(site)

    def _start_sites(self) -> None:
        for site in self.sites:
            site.start()

    # -- workers ----------------------------------------------------------------------------------

    def _content_for(self, broker: str) -> Callable[[], dict[str, object]]:
        config = self._watch.loaded.config
        # Brokers by themselves, as each has a class of its own.
        sent = {**config.model_dump(mode="json", exclude={"brokers"}), "brokers": config.brokers}

        def content() -> dict[str, object]:
            return {
                "config": sent,
                "broker": broker,
                "drain_s": self._drain_s,
                "policies": self._policies[broker],
                "facts": self._facts[broker],
            }

        return content

    def _keeper(self, broker: str) -> Callable[[str, str], str]:
        def keep(key: str, value: str) -> str:
            kept = keep_for_workers(self._facts[broker], key, value)
            if kept == value:
                self._thread.submit(self._watch.keep_fact, broker, key, value)
            return kept

        return keep

    async def _watch_changes(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_POLL_S):
                    await self._reload.wait()
            except TimeoutError:
                pass
            logs.tell_left_out()
            force = self._reload.is_set()
            # Before the look: a signal that comes during it asks for another one.
            self._reload.clear()
            if force:
                log.info("reading the configuration again")
            try:
                await self._take_over(force)
                await self._rollout_watch.look(self.at_desk)
            except Exception as error:  # nothing may end the watch; what is in force stays
                log.exception("file or store could not be checked: %s", error)

    async def _take_over(self, force: bool) -> None:
        """Check whether file or store changed, and send changed policies to the workers."""
        async with self._taking_over:
            await self._in_thread(self._watch.check, force)
            await self._send_changes()

    async def _send_changes(self) -> None:
        """Send the workers what has changed since they were last told."""
        # Before the policies are read: what changes meanwhile is sent the next time.
        changes = self._watch.changes
        if changes == self._sent_changes:
            return
        await self._read_watch()
        log.info("policies changed", extra={"version": version_text(self._watch.version)})
        for worker in self.workers:
            worker.tell("policies", policies=self._policies[worker.broker])
        self._sent_changes = changes

    async def _read_watch(self) -> None:
        for broker in self._watch.loaded.config.brokers:
            policies = await self._in_thread(self._watch.policies, broker.name)
            self._policies[broker.name] = policies
            fields = self._watch.loaded.fields
            defaults = fields.defaults_with(broker.policy_defaults)
            resolver = Resolver(policies, defaults, fields.broker_only)
            if broker.name not in self._facts:
                self._facts[broker.name] = await self._in_thread(self._watch.facts, broker.name)
            facts, driver = self._facts[broker.name], self._watch.plugins.drivers[broker.system]
            entry = self._entries.get(broker.name, broker)
            self._in_force[broker.name] = BrokerPolicies(entry, driver, resolver, fields, facts)
        self.file_digest = self._watch.loaded.file_digest

    async def _in_thread(self, call: Callable[..., Result], *arguments: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
