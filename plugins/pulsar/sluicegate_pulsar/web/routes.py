"""Routes requests by their paths, which are read as the broker reads them."""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote, unquote_plus

from sluicegate.model import Level, OperationKind, TopicName
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.names import topic_name
from sluicegate_pulsar.web.http_errors import WebError

_DOMAINS = ("persistent", "non-persistent")
_DELAYED = "delayedDelivery"
_PARTITION = re.compile(r"-partition-\d+$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
# Messages sent or received here would bypass all policies.
_BYPASSES = {
    "ws": "WebSocket producers and consumers are not served through the gateway: use the binary protocol",
    "topics": "publishing over REST is not served through the gateway: use the binary protocol",
}


@dataclass(frozen=True, slots=True)
class Delayed:
    """The delayed-delivery policy of a topic or a namespace."""

    level: Level
    topic: TopicName
    """At namespace level without a name of its own."""

    @property
    def name(self) -> str:
        """The name in the store."""
        return self.topic.full if self.level is Level.TOPIC else self.topic.namespace


@dataclass(frozen=True, slots=True)
class Deletable:
    """A topic, a namespace or a tenant itself, which a DELETE removes with its policies."""

    level: Level
    """`BROKER` for a tenant."""
    name: str
    """The topic's full name, `tenant/namespace`, or the tenant."""

    @property
    def namespace(self) -> str:
        """Whose changes it shares a lock with."""
        return topic_name(self.name).namespace if self.level is Level.TOPIC else self.name

    def covers(self, level: Level, name: str) -> bool:
        """Whether its deletion removes a topic or a namespace."""
        if self.level is Level.TOPIC:
            return level is Level.TOPIC and name == self.name
        path = name.partition("://")[2] if level is Level.TOPIC else name
        return f"{path}/".startswith(f"{self.name}/")


@dataclass(frozen=True, slots=True)
class Lookup:
    """Which broker serves a topic."""


@dataclass(frozen=True, slots=True)
class Other:
    """Everything that the gateway does not handle."""


@dataclass(frozen=True, slots=True)
class Creation:
    """A topic that a request creates, or may create, or that gets partitions."""

    topic: TopicName
    kind: OperationKind
    has_partitions: bool
    """Whether the request's body says how many partitions it will have."""


Route: TypeAlias = Delayed | Lookup | Deletable | Other


def route(path: str) -> Route:
    """Route a request.

    :param path: unchanged, with its percent-encoding, without the query.
    :raises WebError: if it is not served, or could be read in more than one way.
    """
    if ";" in path:
        raise WebError(400, "path parameters (';') are not served")
    if not path.startswith("/") or "#" in path:
        # Brokers also take whole URLs (`GET http://host/path`), and end paths at a fragment.
        raise WebError(400, "expected a path that begins with '/', without '#'")
    raw = [segment for segment in path.split("/") if segment]
    steps = [unquote(segment) for segment in raw]
    if any(step in (".", "..") or _CONTROL.search(step) for step in steps) or "/" in "".join(steps[:2]):
        raise WebError(400, "ambiguous path")
    if steps and steps[0] in _BYPASSES:
        raise WebError(403, _BYPASSES[steps[0]])
    if steps and steps[0] == "lookup":
        return Lookup()
    if steps[:2] == ["admin", "v2"] and steps[-1] == _DELAYED:
        if steps[2] in _DOMAINS and len(steps) == 7:
            return Delayed(Level.TOPIC, _topic(steps[2], steps[3], steps[4], unquote_plus(raw[5])))
        if steps[2] == "namespaces" and len(steps) == 6:
            return Delayed(Level.NAMESPACE, TopicName("", f"{steps[3]}/{steps[4]}"))
    return _deletable(steps, raw) or Other()


def _deletable(steps: list[str], raw: list[str]) -> Deletable | None:
    if steps[:2] != ["admin", "v2"]:
        return None
    match steps[2:]:
        case ["tenants", tenant]:
            return Deletable(Level.BROKER, tenant)
        case ["namespaces", tenant, namespace]:
            return Deletable(Level.NAMESPACE, f"{tenant}/{namespace}")
        case [domain, tenant, namespace, _] | [domain, tenant, namespace, _, "partitions"]:
            local = unquote_plus(raw[5])
            if domain in _DOMAINS and not _PARTITION.search(local):  # a partition has no policies of its own
                with suppress(WebError):  # no name of a topic: the broker says so
                    return Deletable(Level.TOPIC, _topic(domain, tenant, namespace, local).full)
    return None


def creation(method: str, path: str) -> Creation | None:
    """The topic that a request creates or enlarges; one that asks for its partitions may create it, too.

    :param method: in upper case.
    :param path: one that `route` accepts.
    """
    raw = [segment for segment in path.split("/") if segment]
    steps = [unquote(segment) for segment in raw]
    if steps[:2] != ["admin", "v2"] or not steps[2:] or steps[2] not in _DOMAINS:
        return None
    match method, steps[3:]:
        case "PUT", [tenant, namespace, _, *rest] if rest in ([], ["partitions"]):
            kind = OperationKind.CREATE_TOPIC
        case "POST", [tenant, namespace, _, "partitions" as rest]:
            kind = OperationKind.CREATE_PARTITIONS
        case "GET", [tenant, namespace, _, "partitions"]:
            kind, rest = OperationKind.CREATE_TOPIC, []
        case _:
            return None
    with suppress(WebError):  # no name of a topic: the broker says so
        return Creation(_topic(steps[2], tenant, namespace, unquote_plus(raw[5])), kind, bool(rest))
    return None


def whole_topic(name: str) -> TopicName:
    """The topic that policies are set for: of a partition the partitioned topic, as in Pulsar.

    :raises WebError: if it is no topic name.
    """
    try:
        return topic_name(_PARTITION.sub("", name))
    except ProtocolError as error:
        raise WebError(412, f"topic name is not valid: {error}") from None


def _topic(domain: str, tenant: str, namespace: str, local: str) -> TopicName:
    if "/" in tenant or "/" in namespace:
        raise WebError(412, "tenant or namespace name is not valid")
    return whole_topic(f"{domain}://{tenant}/{namespace}/{local}")
