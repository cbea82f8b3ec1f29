"""One broker of a cluster that shares a metadata store."""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from time import monotonic_ns
from types import TracebackType
from typing import Any

import grpc.aio

from sluicegate.store.metadata import NO_LEASE, MetadataStore
from sluicegate_danube.failover import keys
from sluicegate_danube.reference.broker_settings import Settings
from sluicegate_danube.reference.server import call_later, start_server
from sluicegate_danube.reference.stored.assignments import Assignments
from sluicegate_danube.reference.stored.cluster import StoredCluster, StoredNode
from sluicegate_danube.reference.stored.membership import Membership
from sluicegate_danube.reference.stored.reports import Usage, report_value
from sluicegate_danube.reference.stored.view import ClusterView, registration_value
from sluicegate_danube.reference.stored.writes import Writes

TTL_S = 32
"""How long a broker counts as alive that is not heard of: Danube's own default."""
REPORT_S = 30.0
"""How often a broker reports its load."""
_STATE = b'{"mode": "active"}'


class StoredBroker:
    """A reference broker that serves what its store assigns to it; an async context manager.

    It registers on a lease. When it finds the lease gone, as after a pause of its process, it stops
    serving at once, closes the connections of its clients, and registers again. It assigns nothing
    itself: that is the work of a load manager or a failover controller.

    :param store: of the cluster; it belongs to the caller.
    :param broker_id: of this broker, from 0 to 2^64-1; no two may have the same.
    :param port: to listen on; 0 for a free one.
    :param ttl_s: how long the lease lives without being renewed: the time to failover against flapping.
    :param cache_wait_s: how long to wait for the watch to tell all of an assigned topic, before the store is
        asked for it.
    :param report_s: how often it reports its load. A report ends with the broker's lease.
    """

    def __init__(
        self,
        store: MetadataStore,
        broker_id: int,
        settings: Settings | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        ttl_s: int = TTL_S,
        cache_wait_s: float = 0.5,
        report_s: float = REPORT_S,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        tls: grpc.ServerCredentials | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.writes = Writes()
        self.view = ClusterView(store)
        self.cluster = StoredCluster(
            settings or Settings(), call_later, store, self.view, self.writes, self._is_valid
        )
        self.assignments = Assignments(store, broker_id, self.cluster, cache_wait_s)
        self.membership: Membership | None = None
        self._store = store
        self._host, self._port = host, port
        self._ttl_s = ttl_s
        self._report_s = report_s
        self._usage = Usage()
        self._interceptors, self._tls = interceptors, tls
        self._server: grpc.aio.Server | None = None
        self._registered = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self._host}:{self._port}"

    @property
    def url(self) -> str:
        """`http://host:port`, or https."""
        return f"{'http' if self._tls is None else 'https'}://{self.address}"

    def _is_valid(self) -> bool:
        return self.membership is not None and self.membership.is_valid

    async def __aenter__(self) -> "StoredBroker":
        """Listen, register, and read the assignments.

        :raises OSError: if the port is not available.
        """
        await self._listen()
        self.membership = Membership(
            self._store,
            keys.registration_key(self.broker_id),
            registration_value(self.url),
            self._ttl_s,
            on_registered=self._on_registered,
            on_lost=self._on_lost,
            now_ns=monotonic_ns,
        )
        caches = (*self.view.caches, self.assignments.cache)
        for work in (self.membership.run(), self.writes.run(), *(cache.run() for cache in caches)):
            self._spawn(work)
        self._spawn(self._report())
        await self._registered.wait()
        for cache in caches:
            await cache.listed.wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the lease and stop."""
        await self.kill()
        if self.membership is not None:
            await self.membership.leave()

    async def kill(self) -> None:
        """Stop as a crash would: the lease remains until it expires."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._close()

    async def _on_registered(self) -> None:
        self.writes.add(partial(self._store.put, keys.state_key(self.broker_id), _STATE))
        if self._server is None:
            await self._listen()
            await self.assignments.open_all()
        self._registered.set()

    async def _report(self) -> None:
        while True:
            await self._registered.wait()
            self.writes.add(self._write_report)
            await asyncio.sleep(self._report_s)

    async def _write_report(self) -> None:
        lease = self.membership.lease if self.membership is not None else NO_LEASE
        if lease != NO_LEASE:
            value = report_value(self._usage.cpu(), self._usage.memory(), self.cluster.topics)
            await self._store.put(keys.load_key(self.broker_id), value, lease)

    async def _on_lost(self) -> None:
        self._registered.clear()
        await self._close()

    async def _close(self) -> None:
        self.assignments.close()
        server, self._server = self._server, None
        if server is not None:
            await server.stop(None)

    async def _listen(self) -> None:
        node = StoredNode(cluster=self.cluster, index=0, urls=[self.url])
        self._server, self._port = await start_server(
            node, self.address, interceptors=self._interceptors, tls=self._tls
        )
        node.urls[0] = self.url

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))
