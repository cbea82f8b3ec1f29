"""One Kafka cluster behind the gateway: its listeners, its sessions, and the gateway's own requests to it."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sluicegate.broker import UNIQUE_FACT, BaseFront, Listener, Services, Wait
from sluicegate.pacing.asked_once import AskedOnce
from sluicegate_kafka.cluster.nodes import NODE, Nodes
from sluicegate_kafka.cluster.upstream import BackingOffError, Upstream
from sluicegate_kafka.codec.frames import client_id_of
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.producing.unpacking import Unpacking
from sluicegate_kafka.session.session import KafkaSession
from sluicegate_kafka.session.shared.listing import ListGroups
from sluicegate_kafka.session.shared.shared import Shared
from sluicegate_kafka.session.shared.told_arrivals import BATCH_S, KIND, ToldArrivals, heard

log = logging.getLogger("sluicegate.kafka")
"""Under the gateway's own logger, which alone has a handler."""

_ADDRESS = "node."
"""Prefix of the facts that keep the address of each node; numbers of ports are kept as `UNIQUE_FACT`."""
_NODE_SEEN = "node"
_IDLE_SWEEP_TICKS = 10
_CONNECTIONS_PER_SLICE = 200
_API_VERSIONS = bytes.fromhex("00000014 0012 0000 00000000 000a") + b"sluicegate"
"""An ApiVersions request of version 0, which every broker answers before any login."""


class KafkaFront(BaseFront):
    """One Kafka cluster."""

    greeting = _API_VERSIONS

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._nodes = Nodes(config)
        self._upstream = Upstream(config)
        self._asked = AskedOnce[None]()
        self._services: Services | None = None
        self._shared: Shared | None = None
        self._ticks = 0
        self._groups_unknown = False
        """True once it is logged that the broker does not list its groups, until it does."""
        self._inspectors = ThreadPoolExecutor(1, "sluicegate-inspect")
        """Unpacks compressed batches, a piece at a time; the thread starts with the first."""

    async def start(self, services: Services) -> None:
        """Listen for the bootstrap address and for the nodes known from before."""
        self._services = services
        self._upstream.tls_for = services.tls_for
        self._shared = Shared(self._config, services, self._nodes)
        if services.siblings:
            batches = ToldArrivals(
                self._shared.learned.arrivals,
                lambda: services.spawn(_flush(batches)),
                services.tell_siblings,
            )
        self._nodes.on_change = self._open
        await services.listen(self._bootstrap())
        addresses: dict[int, tuple[str, int]] = {}
        for key, value in services.recall(_ADDRESS).items():
            host, _, port = value.rpartition(":")
            addresses[int(key.removeprefix(_ADDRESS))] = (host, int(port))
        owners = {
            int(key.removeprefix(UNIQUE_FACT)): int(value.removeprefix(NODE))
            for key, value in services.recall(UNIQUE_FACT).items()
            if value.startswith(NODE)
        }
        self._nodes.recall(addresses, owners)

    def reached(self) -> None:
        """List the nodes, now that a broker is reachable."""
        self._upstream.reset_backoff()
        identity = self._config.identity
        if identity is not None and identity.bootstrap:
            return  # a broker tells its address at the listener that was asked, and clients use another
        if self._services is not None:
            self._services.spawn(self._ask_for_nodes())

    @property
    def _started(self) -> Shared:
        if self._shared is None:
            raise RuntimeError("the front has not been started")
        return self._shared

    def _bootstrap(self) -> Listener:
        listen = self._config.listen
        return Listener("bootstrap", listen.host, listen.port, self._config.bootstrap)

    async def _ask_for_nodes(self) -> None:
        try:
            # Not as a list of all: a node that advertises the gateway has answered through the gateway.
            self._nodes.named(await self._upstream.nodes())
        except Exception as error:  # noqa: BLE001 - any failure means the same: clients' responses name the nodes
            log.info("cannot list the broker's nodes (%s); learning them from clients' responses", error)

    def _open(self, node_id: int) -> None:
        """Listen for a broker that is new or has moved, and remember it for the next start."""
        if self._services is None:
            return
        listener = self._nodes.listener(node_id)
        host, port = listener.upstream[0]
        self._services.remember(f"{_ADDRESS}{node_id}", f"{host}:{port}")
        if (number := self._nodes.number(node_id)) != node_id:
            self._services.remember(f"{UNIQUE_FACT}{number}", f"{NODE}{node_id}")
        if self._services.siblings and not self._nodes.is_heard:
            news = {"node": node_id, "host": host, "port": port, "number": number}
            self._services.tell_siblings(_NODE_SEEN, news)
        self._services.spawn(self._services.listen(listener))

    def _close_gone(self, services: Services, now_ns: int) -> None:
        """Listen no longer for brokers that are gone, and forget them."""
        releases = self._started.releases
        for node_id, numbers in self._nodes.gone(now_ns, lambda: {each.node for each in releases}):
            log.info("node %d is gone: its port is free", node_id)
            services.stop_listening(f"{NODE}{node_id}")
            services.remember(f"{_ADDRESS}{node_id}", "")
            for number in numbers:
                services.remember(f"{UNIQUE_FACT}{number}", "")

    def affinity(self, listener: Listener, host: str, first: bytes) -> bytes | Wait | None:
        """A client is its host and client id; with TLS its host alone, as its requests cannot be read yet."""
        if self._config.tls.client is not None:
            return host.encode()
        client_id = client_id_of(first)
        return Wait(client_id) if isinstance(client_id, int) else b"%b/%b" % (host.encode(), client_id)

    def heard(self, kind: str, content: Mapping[str, Any]) -> None:
        """A sibling has seen records arrive, or a node that is new, or was first to give a port to a node."""
        if kind == KIND and self._shared is not None:
            now_ms = self._shared.wall_ms(time.monotonic_ns())
            heard(self._shared.learned.arrivals, content["seen"], now_ms)
        elif kind == _NODE_SEEN and self._services is not None:
            self._nodes.heard(content["node"], (content["host"], content["port"]), content["number"])
        elif kind == UNIQUE_FACT:
            number, node_id = content["key"].removeprefix(UNIQUE_FACT), content["value"].removeprefix(NODE)
            self._nodes.owned(int(number), int(node_id))

    def session(self, listener: Listener, peer: str, now_ns: int) -> KafkaSession:
        """A session for a new client connection."""
        return KafkaSession(self._started, peer, listener.name, now_ns)

    async def answer(self, question: object) -> object:
        """Answer a session's question; a broker that does not respond counts as an answer too."""
        if isinstance(question, Unpacking):
            await asyncio.get_running_loop().run_in_executor(self._inspectors, question.run)
            return None
        if not isinstance(question, ListGroups):
            raise TypeError(f"expected ListGroups or an Unpacking, got {question!r}")
        await self._asked.ask(question, self._list_groups)
        return None

    async def _list_groups(self) -> None:
        groups: Mapping[str, set[str]] | None = None
        asked_ns = time.monotonic_ns()
        try:
            groups = await self._upstream.groups_by_topic()
        except BackingOffError as error:  # the broker is not asked as often as clients join
            self._started.count(KafkaEvent.GROUP_LISTING_PUT_OFF)
            if not self._groups_unknown:
                self._log_unknown(error)
        except Exception as error:  # noqa: BLE001 - unknown is a state that policies handle
            self._started.count(KafkaEvent.GROUP_LISTING_FAILED)
            self._log_unknown(error)
        else:
            self._groups_unknown = False
        self._started.learned.listing.learned(groups, asked_ns, time.monotonic_ns())

    def _log_unknown(self, error: Exception) -> None:
        self._groups_unknown = True
        log.warning("cannot list consumer groups: %s; limits on subscriptions act by on_unknown", error)

    def tick(self, now_ns: int) -> None:
        """Once a second: release idle producers and readers, and close ports of nodes, now and then."""
        if self._shared is None or self._services is None:
            return
        self._ticks += 1
        if self._ticks % _IDLE_SWEEP_TICKS == 0:
            self._close_gone(self._services, now_ns)
            self._services.spawn(self._release_idle(self._shared, now_ns))

    @staticmethod
    async def _release_idle(shared: Shared, now_ns: int) -> None:
        """Release idle producers and readers, of some connections in each turn of the loop."""
        for place, connection in enumerate(tuple(shared.releases)):
            for release in shared.releases.get(connection, ()):
                for _ in release(now_ns):
                    await asyncio.sleep(0)
            if place % _CONNECTIONS_PER_SLICE == _CONNECTIONS_PER_SLICE - 1:
                await asyncio.sleep(0)

    @property
    def notes(self) -> Sequence[str]:
        """What operators should know of single nodes."""
        return self._nodes.notes

    def counters(self) -> Mapping[str, int]:
        """Event counters."""
        return self._shared.counters() if self._shared is not None else {}

    async def stop(self) -> None:
        """Close the gateway's own connections."""
        self._asked.cancel()
        self._inspectors.shutdown(wait=False, cancel_futures=True)
        await self._upstream.close()


async def _flush(batches: ToldArrivals) -> None:
    await asyncio.sleep(BATCH_S)
    batches.flush()
