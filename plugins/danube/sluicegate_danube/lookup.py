"""Lookups of topics: no client may learn an address that bypasses the gateway.

Answers of TopicLookup are rewritten as bytes, so that fields which this version does not know stay. Other
answers carry no address that a client connects to: TopicPartitions names partitions only, and the
`broker_addr` of a delivered message is what its producer wrote there.
"""

from collections.abc import Callable
from typing import Literal

from sluicegate.broker_ports import Address, BrokerPorts, shown
from sluicegate_danube.wire import LENGTH, VARINT, fields, text_field, varint, varint_field
from sluicegate_grpc.proxy.once import Once
from sluicegate_grpc.semantics.status import FAILED_PRECONDITION, Refusal

RESPONSE_TYPE, CONNECT_URL, BROKER_URL, PROXY = 4, 5, 6, 7
"""Field numbers of TopicLookupResponse."""
FAILED = 2
"""LookupType of an answer without a broker."""
_MAX_URL = 200
_UNKNOWN = Refusal(
    FAILED_PRECONDITION,
    "The topic is served by a broker that this gateway does not know. Add it to known_brokers in the "
    "gateway's file. The gateway's log names it.",
    b"",
)
_UNREADABLE = Refusal(FAILED_PRECONDITION, "The gateway cannot read the broker's answer to this lookup.", b"")


def _nobody(broker: str) -> None:
    """Ignores the answer."""


class Lookup:
    """Rewrites answers of TopicLookup.

    :param brokers: the known brokers.
    :param route: as in the configuration.
    :param client_tls: whether clients speak TLS with the gateway.
    :param tell: called once with each unknown broker that an answer names, up to a bound.
    """

    def __init__(
        self,
        brokers: BrokerPorts,
        route: Literal["ports", "metadata"],
        client_tls: bool,
        tell: Callable[[str], None] = _nobody,
    ) -> None:
        self._brokers = brokers
        self._route = route
        self._scheme = "https" if client_tls else "http"
        self._tell = tell
        self._once = Once()
        self.refused = 0
        """Answers that named a broker which is not known."""

    def rewrite(self, message: bytes) -> bytes | Refusal | None:
        """Put the gateway in place of the broker that an answer names.

        :param message: a TopicLookupResponse as the broker wrote it.
        :return: the answer for the client; None if it is unchanged; a refusal that ends the call
            if the broker is unknown. It is FAILED_PRECONDITION, as a retry does not help; after an answer
            "failed" clients report that the topic may not exist.
        """
        try:
            kind, connect_url, broker_url, proxy, others = _read(message)
        except ValueError:
            self.refused += 1
            return _UNREADABLE
        if kind == FAILED:
            return None if not connect_url and not broker_url else others
        place = self._by_metadata if self._route == "metadata" else self._by_port
        told = place(connect_url, broker_url, proxy)
        if told is None:
            self.refused += 1
            named = (broker_url if proxy else connect_url)[:_MAX_URL]
            if self._once.first(named):
                self._tell(named)
            return _UNKNOWN
        gate, identity, proxied = told
        return (
            others
            + text_field(CONNECT_URL, gate)
            + text_field(BROKER_URL, identity)
            + (varint_field(PROXY, 1) if proxied else b"")
        )

    def owner(self, message: bytes) -> str:
        """The broker that an answer names as the topic's owner; empty if there is none or it is unknown."""
        try:
            kind, connect_url, broker_url, proxy, _ = _read(message)
        except ValueError:
            return ""
        named = broker_url if proxy else connect_url
        address = self._brokers.target(named) if kind != FAILED else None
        return shown(address) if address is not None else ""

    def _by_port(self, connect_url: str, broker_url: str, proxy: bool) -> tuple[str, str, bool] | None:
        """The gateway's port for the broker, or for the proxy in front of it."""
        gate = self._brokers.port_of(connect_url)
        if gate is None or (proxy and self._brokers.target(broker_url) is None):
            return None
        url = self._url(gate, connect_url)
        return (url, broker_url, True) if proxy else (url, url, False)

    def _by_metadata(self, connect_url: str, broker_url: str, proxy: bool) -> tuple[str, str, bool] | None:
        """The gateway's only address; calls name the broker as it names itself."""
        name = broker_url if proxy else connect_url
        if self._brokers.target(name) is None:
            return None
        return self._url(self._brokers.main, connect_url), name, True

    def _url(self, gate: Address, like: str) -> str:
        """An address of the gateway in the form of the broker's own, as some clients need a scheme."""
        return f"{self._scheme}://{shown(gate)}" if "://" in like else shown(gate)


def _read(message: bytes) -> tuple[int, str, str, bool, bytes]:
    """The addresses in an answer, and its other fields.

    :return: LookupType, `connect_url`, `broker_url`, `proxy`, the other fields as bytes.
    :raises ValueError: if it is not a protobuf message.
    """
    kind, proxy, urls = 0, False, {CONNECT_URL: "", BROKER_URL: ""}
    others = bytearray()
    for field, wire_type, start, value_at, stop in fields(message):
        if field in urls and wire_type == LENGTH:
            urls[field] = message[value_at:stop].decode()
        elif field == PROXY and wire_type == VARINT:
            proxy = bool(varint(message, value_at)[0])
        else:
            if field == RESPONSE_TYPE and wire_type == VARINT:
                kind = varint(message, value_at)[0]
            others += message[start:stop]
    return kind, urls[CONNECT_URL], urls[BROKER_URL], proxy, bytes(others)
