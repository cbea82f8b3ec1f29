"""The options of a Pulsar entry under `brokers:`."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from sluicegate.broker.broker_ports import node_ports
from sluicegate.config.models import Listen, NodePortsConfig, Ports, Strict
from sluicegate.config.units import Count, Host, Size, refuse
from sluicegate.model import Level
from sluicegate_pulsar.names import could_be_namespace, could_be_topic

_TOPICS = "a topic is named in full or in short: 'persistent://public/default/orders', 'orders'"


class Admin(Strict):
    """The cluster's admin REST API, for the web listener and for the gateway's own requests."""

    url: str = Field(pattern=r"^https?://[^/\s]+/?$")
    """Address of the admin API: http://host:8080."""
    token: str | None = Field(default=None, min_length=1, repr=False)
    """Token for the gateway's own requests (subscriptions, brokers); clients never use it. Better set by
    environment than in the file."""


class Web(Strict):
    """The web listener: the cluster's admin API with fixed delivery delays, and HTTP lookups."""

    listen: Listen
    """Where admin clients connect."""
    advertised_host: Host | None = None
    """Host that clients are told; the address they reached if unset."""


class PublishQueue(Strict):
    """Limits of the messages of one producer that wait for its rate; beyond them, it is reopened.

    By default, the messages that clients keep pending fit: 64 MiB in Java; 1,000 messages in C++, Python and
    Go.
    """

    messages: Count = 0
    """Frames waiting, for each producer; 0 for as many as its bytes allow."""
    bytes: Size = Field(default=80 * 1024 * 1024, gt=0)
    """Bytes in memory waiting, for each producer."""


class PulsarConfig(NodePortsConfig):
    """One Pulsar cluster."""

    refuses_paused_producers: ClassVar[bool] = True

    system: Literal["pulsar"]
    """Kind of broker."""
    known_brokers: tuple[str, ...] = ()
    """Brokers that clients may be sent to, host:port, `*` for any part of a name; besides `bootstrap`, and
    hosts that the admin API lists with a port of `bootstrap`. Lookups that answer with others are refused.
    Requests to the admin API may be redirected to these hosts, too."""
    admin: Admin | None = None
    """The cluster's admin API."""
    web: Web | None = None
    """Listener in front of the admin API; needs `admin`."""
    strict: Literal["auto", "yes", "no"] = "auto"
    """Whether the brokers never deliver before deliverAt (isDelayedDeliveryDeliverAtTimeStrict). If not, one
    tick is added to fixed delays; auto asks the admin API."""
    tick: Annotated[int, Field(ge=1, le=60_000, strict=True)] = 1_000
    """The brokers' delayedDeliveryTickTimeMillis, in ms, where the admin API does not say."""
    publish_queue: PublishQueue = PublishQueue()
    """Bounds on messages that wait for a publish rate."""
    chunk_buffer: Size = Field(default=64 * 1024 * 1024, gt=0)
    """Bytes of one producer that may be held until the last chunk of a message with a fixed delay has come; a
    larger message is refused."""
    consumer_buffer: Size = Field(default=8 * 1024 * 1024, gt=0)
    """Bytes in memory of messages that may be withheld for one consumer, until they are due or within its
    rate."""

    max_command_bytes: Size = Field(default=1024 * 1024, gt=0)
    """Largest command of a client, and largest frame without a message; a schema must fit."""
    max_requests_in_flight: Count = Field(default=1_000, gt=0)
    """Requests of one connection that may wait for their responses; with more of them it is not read from."""

    @model_validator(mode="after")
    def _nothing_behind_the_web_listener(self) -> "PulsarConfig":
        if self.web is not None and self.admin is None:
            raise refuse("'web' needs the admin API behind it", "add 'admin: {url: http://host:8080}'")
        return self

    @property
    def advertises_nodes(self) -> bool:
        """A single broker has the listener's port."""
        return bool(len(set(self.addresses)) > 1 or self.known_brokers)

    @property
    def opens_ports_of_brokers(self) -> bool:
        """Whether each broker gets its port once it is known: lookups over HTTP lead there.

        Next to an ephemeral listening port there are none.
        """
        return self.web is not None and self.first_node_port > 1

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The configured brokers, host and port; in lower case, as URLs are read."""
        return tuple((address.host.lower(), address.port) for address in self.bootstrap)

    def ports(self) -> Iterator[Ports]:
        """Besides the listener those that stand for single brokers, and the web listener."""
        yield from super().ports()
        yield from node_ports(self)
        if self.opens_ports_of_brokers and len(set(self.addresses)) == 1:
            # A broker that advertises another name than the file's gets the port behind that of the file's.
            after = self.first_node_port + 1
            yield Ports(self.listen.host, after, 1, ("node_port_base",), "node ports", is_certain=False)
        if self.web is not None:
            listen = self.web.listen
            yield Ports(listen.host, listen.port, 1, ("web", "listen", "port"), "the web listener")

    def rule_of_names(self, level: Level, name: str) -> str:
        """Topics have a full and a short form, namespaces a tenant."""
        if level is Level.TOPIC:
            return "" if could_be_topic(name) else _TOPICS
        return "" if could_be_namespace(name) else "a namespace has its tenant before it: 'public/default'"
