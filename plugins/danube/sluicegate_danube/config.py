"""What a Danube entry under `brokers:` may say."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from sluicegate.broker.broker_ports import node_ports
from sluicegate.config.models import NodePortsConfig, Ports, Strict
from sluicegate.model import Level
from sluicegate_danube.names import could_be_topic
from sluicegate_grpc.proxy.config import GrpcConfig, Http2

__all__ = ["Admin", "DanubeConfig", "Http2"]


class Admin(Strict):
    """The cluster's admin API (gRPC), which lists the subscriptions of a topic."""

    url: str = Field(pattern=r"^https?://[^/\s]+/?$")
    """Address of the admin API: http://host:50051."""
    token: str | None = Field(default=None, min_length=1, repr=False)
    """Token for the gateway's own requests; clients never use it. Better set by environment than in the
    file."""


class DanubeConfig(NodePortsConfig, GrpcConfig):
    """One Danube cluster."""

    system: Literal["danube"]
    """Kind of broker."""
    known_brokers: tuple[str, ...] = ()
    """Brokers that clients may be sent to, host:port, `*` for any part of a name; besides `bootstrap`.
    Lookups that answer with others are refused."""
    route: Literal["ports", "metadata"] = "ports"
    """How clients reach each of several brokers. ports: lookups lead to a port of the gateway that stands for
    the broker. metadata: all come to the one address, and clients name the broker in x-danube-broker-url, as
    with Danube's own proxy."""
    admin: Admin | None = None
    """The cluster's admin API."""
    resume_producers: bool = False
    """Producers resume when their topic gets another owner: the gateway creates them there, in the client's
    name. Without it a client gets NOT_FOUND, and has to create its producer again."""

    @property
    def advertises_nodes(self) -> bool:
        """A single broker has the listener's port."""
        return self.route == "ports" and bool(len(set(self.addresses)) > 1 or self.known_brokers)

    def ports(self) -> Iterator[Ports]:
        """Besides the listener those that stand for single brokers, if clients are led to them."""
        yield from super().ports()
        if self.route == "ports":
            yield from node_ports(self)

    def rule_of_names(self, level: Level, name: str) -> str:
        """Names are paths of two parts, of which the first is the namespace."""
        if level is Level.TOPIC:
            return "" if could_be_topic(name) else "a topic is named '/namespace/topic': '/default/orders'"
        return "" if "/" not in name else "a namespace is the first part of a topic's name: 'default'"
