"""The reference broker's sockets and timers: one gRPC server for each broker of the cluster."""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType

import grpc.aio
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from danube.proto import SchemaRegistry_pb2_grpc as schema_services

from sluicegate_danube.reference.admin import Admin
from sluicegate_danube.reference.broker_settings import Settings
from sluicegate_danube.reference.cluster import Cluster
from sluicegate_danube.reference.consumer_service import Consuming
from sluicegate_danube.reference.discovery import Discovery, Health
from sluicegate_danube.reference.edge import Edge
from sluicegate_danube.reference.node import Node
from sluicegate_danube.reference.producer_service import Producing
from sluicegate_danube.reference.schema_registry import Registry

_OPTIONS = (
    # The services themselves refuse more than 4 MiB, with Danube's status; gRPC's own would be another.
    ("grpc.max_receive_message_length", 64 << 20),
    # A second broker on a taken port is a mistake, not a second listener.
    ("grpc.so_reuseport", 0),
)


class ReferenceBroker:
    """An in-memory cluster that speaks Danube's gRPC protocol, for demos and fast tests. It is not Danube.

    Without authentication, storage on disk, acknowledgement timeouts, dead letters or limits. Use it as an
    async context manager. All methods are to be called in the event loop that runs it.

    :param settings: how it behaves; the default if None.
    :param host: address to listen on.
    :param port: of the first broker; 0 for a free one. The others take free ones.
    :param brokers: how many there are.
    :param interceptors: for each broker's gRPC server.
    :param tls: certificate and key for the servers; none for plain text.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        brokers: int = 1,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        tls: grpc.ServerCredentials | None = None,
    ) -> None:
        self._host = host
        self._ports = [port] + [0] * (brokers - 1)
        self._interceptors = interceptors
        self._tls = tls
        self._servers: dict[int, grpc.aio.Server] = {}
        self._urls: list[str] = []
        self.cluster = Cluster(settings if settings is not None else Settings(), brokers, call_later)

    @property
    def addresses(self) -> list[str]:
        """`host:port` of each broker."""
        return [f"{self._host}:{port}" for port in self._ports]

    @property
    def urls(self) -> list[str]:
        """`http://host:port` (or https) of each broker."""
        return list(self._urls)

    def create_topic(self, name: str, *, reliable: bool = False, owner: int | None = None) -> None:
        """Make a topic, as an operator would; without it, the first producer does.

        :param owner: index of the broker that is to serve it; the next in turn if None.
        :raises RefusedError: if there is no room for it.
        """
        self.cluster.make(name, reliable, owner)

    def messages(self, topic: str) -> list[pb.StreamMessage]:
        """The stored messages of a topic, oldest first; acknowledged messages may have been dropped.

        :raises KeyError: if there is no such topic.
        """
        return self.cluster.topics[topic].log.messages()

    def producers(self, topic: str) -> list[str]:
        """Names of the producers of a topic. Danube's protocol has no message for leaving, so they stay.

        :raises KeyError: if there is no such topic.
        """
        return sorted(self.cluster.topics[topic].producers)

    def consumers(self, topic: str, subscription: str) -> list[str]:
        """Names of the attached consumers of a subscription.

        :raises KeyError: if there is no such topic or subscription.
        """
        consumers = self.cluster.topics[topic].subscriptions[subscription].consumers
        return sorted(name for name, consumer in consumers.items() if consumer.attached)

    def move(self, topic: str, owner: int) -> None:
        """Have another broker serve a topic: its producers and consumers are forgotten, as in Danube.

        :param owner: index of the broker.
        :raises KeyError: if there is no such topic.
        """
        moving = self.cluster.topics[topic]
        self.cluster.forget(moving)
        moving.owner = owner

    async def stop(self, broker: int = 0, *, forget: bool = True) -> None:
        """Stop one broker, as a crash would. It keeps its topics, their messages and subscriptions.

        :param broker: its index.
        :param forget: drop attached producers and consumers, as when Danube restarts; False: as when only
            the network fails.
        """
        await self._servers.pop(broker).stop(None)
        for topic in self.cluster.topics.values():
            if forget and topic.owner == broker:
                self.cluster.forget(topic)

    async def restart(self, broker: int = 0) -> None:
        """Restart a stopped broker on its port.

        :raises OSError: if the port is not available.
        """
        await self._start(broker)

    async def __aenter__(self) -> "ReferenceBroker":
        """Begin to listen.

        :raises OSError: if a port is not available.
        """
        try:
            for index in range(self.cluster.brokers):
                await self._start(index)
        except OSError:
            await self.__aexit__(None, None, None)
            raise
        scheme = "http" if self._tls is None else "https"
        self._urls += [f"{scheme}://{address}" for address in self.addresses]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop and discard what is stored."""
        for server in self._servers.values():
            await server.stop(None)
        self._servers.clear()

    async def _start(self, index: int) -> None:
        node = Node(cluster=self.cluster, index=index, urls=self._urls)
        address = f"{self._host}:{self._ports[index]}"
        self._servers[index], self._ports[index] = await start_server(
            node, address, interceptors=self._interceptors, tls=self._tls
        )


async def start_server(
    node: Node,
    address: str,
    *,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    tls: grpc.ServerCredentials | None = None,
) -> tuple[grpc.aio.Server, int]:
    """Serve one broker.

    :param address: `host:port` to listen on; port 0 for a free one.
    :param tls: certificate and key; None for plain text.
    :return: the server, and its port.
    :raises OSError: if the port is not available.
    """
    server = grpc.aio.server(interceptors=interceptors, options=_OPTIONS)
    services.add_ProducerServiceServicer_to_server(Producing(node), server)
    services.add_ConsumerServiceServicer_to_server(Consuming(node), server)
    services.add_DiscoveryServicer_to_server(Discovery(node), server)
    services.add_HealthCheckServicer_to_server(Health(node), server)
    schema_services.add_SchemaRegistryServicer_to_server(Registry(node.cluster.schemas), server)
    Admin(node).add_to(server)
    Edge(node).add_to(server)
    try:
        port = server.add_insecure_port(address) if tls is None else server.add_secure_port(address, tls)
    except RuntimeError as error:
        raise OSError(str(error)) from error
    await server.start()
    return server, port


def call_later(delay_s: float, function: Callable[[int], None], offset: int) -> None:
    """Call a function with an offset later, in the event loop that runs now."""
    asyncio.get_running_loop().call_later(delay_s, function, offset)
