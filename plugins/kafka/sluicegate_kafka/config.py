"""The options of a Kafka entry under `brokers:`."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from sluicegate.config.models import (
    BrokerConfig,
    BrokerTls,
    ClientTls,
    FirstPort,
    NodePortsConfig,
    Ports,
    Strict,
)
from sluicegate.config.units import Count, Duration, HostPort, Size, refuse
from sluicegate.model import ANONYMOUS, Glob, Level
from sluicegate_kafka.codec.request_sizes import API_KEYS

_TOPIC = re.compile(r"[A-Za-z0-9._-]{0,249}")
_TOPICS = "a topic's name has at most 249 letters, digits, '.', '_' and '-': 'orders.created'"
_DEFAULT = "default"
"""Namespace of the topics whose names have no separator."""


class Identity(Strict):
    """The gateway's own login at the broker, for its own requests; clients never use it."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    """SASL mechanism."""
    username: str | None = Field(default=None, min_length=1)
    """User name; without it the gateway logs in by certificate."""
    password: str | None = Field(default=None, min_length=1, repr=False)
    """Password; better set by environment than in the file."""
    bootstrap: tuple[HostPort, ...] = ()
    """Brokers at a listener of the gateway's own, such as the one for replication, host:port; the entry's
    'bootstrap' if unset."""
    tls: BrokerTls | None = None
    """TLS of that login, with a client certificate as 'cert' and 'key'; the entry's 'tls.broker' if unset."""

    @model_validator(mode="after")
    def _whole(self) -> "Identity":
        if (self.username is None) != (self.password is None):
            raise refuse("a user name needs its password", "give both 'username' and 'password', or neither")
        if self.username is None and self.tls is None and not self.bootstrap:
            raise refuse("an identity that says nothing", "give 'username' and 'password', or 'tls'")
        return self


class KafkaConfig(NodePortsConfig):
    """One Kafka cluster."""

    storage_sources: ClassVar[frozenset[str]] = BrokerConfig.storage_sources | {"log_dirs", "snapshots"}
    publishes_snapshots: ClassVar[bool] = True
    client_keys: ClassVar[frozenset[str]] = BrokerConfig.client_keys | {"namespace_separator"}

    system: Literal["kafka"]
    """Kind of broker."""
    node_port_base: FirstPort | None = None
    """Clients reach broker N at this port + N; the listening port + 1 if unset."""
    known_brokers: tuple[str, ...] = ()
    """The only brokers, besides `bootstrap`, that clients are led to, and that the gateway's own requests go
    to: host:port, `*` for any part of a name. If unset, brokers may be anywhere but at link-local addresses,
    and at loopback only if `bootstrap` is."""
    max_nodes: Count = Field(default=1_000, gt=0)
    """Brokers that the gateway has a port for; it tells clients of no more."""
    namespace_separator: str = Field(default=".", max_length=1)
    """The part of a topic's name before it is its namespace; empty: all are in 'default'."""
    producer_idle: Duration = Field(default=600_000, gt=0)
    """A producer that has not published for this long no longer counts; nor does a consumer without a group
    for a topic that it has not fetched for this long."""
    silent_client: Duration = Field(default=20_000, gt=0)
    """Of equal clients one that has sent nothing for this long is replaced by a new one that would be
    refused."""
    request_bytes: Mapping[str, Size] = {}
    """Largest request of single APIs by their names, such as `metadata: 4MiB`. By default Produce has
    `max_frame_bytes`, requests with long lists 8MiB, logins 512KiB, all others 1MiB."""
    max_requests_in_flight: Count = Field(default=100, gt=0)
    """Requests of one connection that may wait for their responses; with more of them it is not read from."""
    identity: Identity | None = None
    """Login of the gateway's own requests (groups, nodes); none if unset."""

    @field_validator("request_bytes")
    @classmethod
    def _known_apis(cls, value: Mapping[str, int]) -> Mapping[str, int]:
        for name in value:
            if name not in API_KEYS:
                close = difflib.get_close_matches(name.lower(), API_KEYS, n=1)
                guess = f"did you mean {close[0]!r}? " if close else ""
                raise refuse(f"unknown API {name!r}", f"{guess}names are as in 'offset_commit'")
        return value

    def ports(self) -> Iterator[Ports]:
        """Besides the listener the node ports. Only the brokers know their ids, mostly from 0 or 1."""
        yield from super().ports()
        count, key = len(self.bootstrap) + 1, ("node_port_base",)
        yield Ports(self.listen.host, self.first_node_port, count, key, "node ports", is_certain=False)

    def tls_sections(self) -> Iterator[tuple[tuple[str, ...], ClientTls | BrokerTls]]:
        """The gateway's own login may have certificates too."""
        yield from super().tls_sections()
        if self.identity is not None and self.identity.tls is not None:
            yield ("identity", "tls"), self.identity.tls

    def rule_of_principals(self, name: str) -> str:
        """Kafka's principals begin with their type, and clients that log in are users."""
        if name.startswith("User:") or name == ANONYMOUS:
            return ""
        return f"write {f'User:{name}'!r}, as Kafka names the principal of a client"

    def rule_of_names(self, level: Level, name: str) -> str:
        """Kafka's names have few characters, and the separator ends the namespace."""
        separator = self.namespace_separator
        is_legal = _TOPIC.fullmatch(name.replace("*", "")) is not None
        if level is Level.TOPIC:
            return "" if is_legal else _TOPICS
        if Glob(name).matches(_DEFAULT):
            return ""
        if not separator:
            return f"all topics are in {_DEFAULT!r}, as 'namespace_separator' is empty"
        if is_legal and separator not in name:
            return ""
        return f"a namespace is the part of a topic's name before the first {separator!r}: 'orders'"
