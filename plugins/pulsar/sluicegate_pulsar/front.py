"""One Pulsar cluster behind the gateway: its listeners, sessions, and the gateway's own requests."""

import asyncio
import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from sluicegate.broker import BaseFront, Listener, Services
from sluicegate.broker.broker_ports import FACT
from sluicegate.pacing.asked_once import AskedOnce
from sluicegate.pacing.backoff import Backoff
from sluicegate_pulsar.cluster.admin import AdminApi, AdminApiError
from sluicegate_pulsar.cluster.brokers import Brokers
from sluicegate_pulsar.cluster.long_delays import LONGEST_DELAY, LongDelays
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import frame_of
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.names import topic_name
from sluicegate_pulsar.session.producers.repacking import Repacking
from sluicegate_pulsar.session.session import PulsarSession
from sluicegate_pulsar.session.shared.shared import Shared
from sluicegate_pulsar.session.shared.subscriptions import ListSubscriptions

log = logging.getLogger("sluicegate.pulsar")
"""Under the gateway's own logger, which alone has a handler."""

_BROKERS_TICKS = 30
"""Seconds between two lists of the brokers."""
_MAIN = "bootstrap"
_FIRST_WAIT_NS = 1_000_000_000
_LONGEST_WAIT_NS = 10_000_000_000


class PulsarFront(BaseFront):
    """One Pulsar cluster."""

    greeting = frame_of(pb.Ping())
    """A broker answers it before any login."""

    def __init__(self, config: PulsarConfig) -> None:
        self._config = config
        self._asked = AskedOnce[None]()
        self._services: Services | None = None
        self._shared: Shared | None = None
        self._admin: AdminApi | None = None
        self._backoff = Backoff(_FIRST_WAIT_NS, _LONGEST_WAIT_NS)
        """While the admin API gives no answer at all, it is not asked for each topic."""
        self._ticks = 0
        self._is_listed = True
        """False if the last request for the list of brokers failed."""
        self._asks_again = False
        """True if the last request for their delay settings failed."""
        self._long_delays = LongDelays()
        self._repackers = ThreadPoolExecutor(1, "sluicegate-repack")

    async def start(self, services: Services) -> None:
        """Listen."""
        self._services = services
        brokers = Brokers(self._config, services.recall(FACT))
        self._shared = Shared(self._config, services, brokers)
        # While the brokers' settings are unknown: better late than early.
        self._shared.delays_grow_by(0 if self._config.strict == "yes" else self._config.tick)
        if self._config.admin is not None:
            self._admin = AdminApi(self._config.admin, services.broker_tls, brokers)
        listen = self._config.listen
        await services.listen(Listener(_MAIN, listen.host, listen.port, ()))
        for key, value, listener in brokers.start():
            services.remember(key, value)
            await services.listen(listener)
        brokers.on_new = self._open

    def reached(self) -> None:
        """Ask the admin API for the brokers and how they delay, as both may have changed."""
        self._backoff.reset()
        if self._services is not None:
            self._services.spawn(self._ask_for_brokers())
            self._services.spawn(self._ask_how_brokers_delay())

    @property
    def _started(self) -> Shared:
        if self._shared is None:
            raise RuntimeError("the front has not been started")
        return self._shared

    def _open(self, key: str, value: str, listener: Listener) -> None:
        """Listen for a new broker, and remember its port for the next start."""
        if self._services is not None:
            self._services.spawn(self._listen(self._services, key, value, listener))

    def heard(self, kind: str, content: Mapping[str, Any]) -> None:
        """A sibling has met a new broker."""
        if kind == FACT and self._services is not None and (new := self._started.brokers.heard(content)):
            self._services.spawn(self._listen(self._services, *new))

    @staticmethod
    async def _listen(services: Services, key: str, value: str, listener: Listener) -> None:
        try:
            await services.listen(listener)
        finally:  # the web listener names what is remembered: the port is to be open by then
            services.remember(key, value)

    async def _ask_for_brokers(self) -> None:
        if self._admin is None:
            return
        try:
            await self._admin.list_brokers()
            self._is_listed = True
        except Exception as error:  # noqa: BLE001 - any failure means the same: what is configured is known
            level = logging.INFO if self._is_listed else logging.DEBUG  # once, until it answers again
            log.log(level, "cannot list the brokers (%s); only those in the file are known", error)
            self._is_listed = False

    async def _ask_how_brokers_delay(self) -> None:
        """Learn whether a tick must be added to fixed delays, so that nothing is early, and their limit."""
        strict, tick_ms = self._config.strict, self._config.tick
        if strict == "auto":
            strict = "no"
        if self._admin is not None:
            try:
                configuration = await self._admin.configuration()
                if self._config.strict == "auto":
                    is_strict = configuration.get("isDelayedDeliveryDeliverAtTimeStrict") == "true"
                    strict = "yes" if is_strict else "no"
                    tick_ms = int(configuration.get("delayedDeliveryTickTimeMillis", tick_ms))
                self._long_delays.longest_ms = int(configuration.get(LONGEST_DELAY, 0))
                self._asks_again = False
            except Exception as error:  # noqa: BLE001 - unknown means: take care
                level = logging.DEBUG if self._asks_again else logging.INFO
                log.log(level, "cannot read how the brokers delay (%s)", error)
                self._asks_again = True
        self._started.delays_grow_by(0 if strict == "yes" else tick_ms)

    def session(self, listener: Listener, peer: str, now_ns: int) -> PulsarSession:
        """A session for a new client connection."""
        shared = self._started
        return PulsarSession(shared, peer, shared.brokers.stands_for(listener))

    async def answer(self, question: object) -> object:
        """Answer a session's question; an API that does not respond counts as an answer too."""
        if isinstance(question, Repacking):
            await asyncio.get_running_loop().run_in_executor(self._repackers, question.run)
            return None
        if not isinstance(question, ListSubscriptions):
            raise TypeError(f"expected ListSubscriptions or a Repacking, got {question!r}")
        await self._asked.ask(question.topic, partial(self._list_subscriptions, question.topic))
        return None

    async def _list_subscriptions(self, topic: str) -> None:
        shared = self._started
        asked_ns = time.monotonic_ns()
        if self._backoff.wait_ns(asked_ns):  # the failure is logged already
            shared.count(PulsarEvent.SUBSCRIPTION_LISTING_PUT_OFF)
            names = None
        else:
            names = await self._listed(topic)
        now_ns = time.monotonic_ns()
        state = shared.gates.state(topic_name(topic), now_ns)
        shared.subscriptions.learned(state, names, asked_ns, now_ns)

    async def _listed(self, topic: str) -> set[str] | None:
        """A topic's subscriptions; None if the admin API fails."""
        try:
            if self._admin is None:
                raise LookupError("no `admin` is configured")
            names = await self._admin.subscriptions(topic)
        except Exception as error:  # noqa: BLE001 - unknown is a state that policies handle
            log.warning(
                "cannot list subscriptions of %s: %s; limits on subscriptions act by on_unknown", topic, error
            )
            self._started.count(PulsarEvent.SUBSCRIPTION_LISTING_FAILED)
            now_ns = time.monotonic_ns()
            # Several requests may fail at once, which counts as one failure.
            if isinstance(error, AdminApiError) and not error.status and not self._backoff.wait_ns(now_ns):
                self._backoff.failed(now_ns)
            return None
        self._backoff.reset()
        return names

    def tick(self, now_ns: int) -> None:
        """Once a second: log what brokers refuse, or will; list the brokers now and then."""
        if self._services is None:
            return
        self._long_delays.warn(self._services.policies)
        for topic, text in self._started.reports.take():
            log.warning("the broker refuses messages of %s: %s", topic, text)
        self._ticks += 1
        if self._ticks % _BROKERS_TICKS == 0:
            self._services.spawn(self._ask_for_brokers())
            if self._asks_again:
                self._services.spawn(self._ask_how_brokers_delay())

    def counters(self) -> Mapping[str, int]:
        """Event counters."""
        return self._shared.counters() if self._shared is not None else {}

    async def stop(self) -> None:
        """End the gateway's own requests."""
        self._asked.cancel()
        self._repackers.shutdown(wait=False, cancel_futures=True)
