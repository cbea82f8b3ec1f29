"""Lookups of topics: no client may learn an address that bypasses the gateway.

Answers of TopicLookup are rewritten; fields that this version does not know stay. Other answers carry no
address that a client connects to: TopicPartitions names partitions only, and the `broker_addr` of a
delivered message is what its producer wrote there.
"""

from collections.abc import Callable
from typing import Literal

from google.protobuf.message import DecodeError

from sluicegate.broker.broker_ports import Address, BrokerPorts, shown
from sluicegate_danube.sluicegate_danube_pb2 import TopicLookupResponse
from sluicegate_grpc.proxy.once import Once
from sluicegate_grpc.semantics.status import FAILED_PRECONDITION, Refusal

_MAX_URL = 200
_UNKNOWN = Refusal(
    FAILED_PRECONDITION,
    "The topic is served by a broker that this gateway does not know. Add it to known_brokers in the "
    "gateway's file. The gateway's log names it.",
)
_UNREADABLE = Refusal(FAILED_PRECONDITION, "The gateway cannot read the broker's answer to this lookup.")


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
        tell: Callable[[str], None] = lambda broker: None,
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
            response = TopicLookupResponse.FromString(message)
        except DecodeError:
            self.refused += 1
            return _UNREADABLE
        if response.response_type == TopicLookupResponse.Failed:
            if not response.connect_url and not response.broker_url:
                return None
            for field in ("connect_url", "broker_url", "proxy"):
                response.ClearField(field)
            return response.SerializeToString()
        rewrite = self._by_metadata if self._route == "metadata" else self._by_port
        if not rewrite(response):
            self.refused += 1
            named = _named(response)[:_MAX_URL]
            if self._once.first(named):
                self._tell(named)
            return _UNKNOWN
        return response.SerializeToString()

    def owner(self, message: bytes) -> str:
        """The broker that an answer names as the topic's owner; empty if there is none or it is unknown."""
        try:
            response = TopicLookupResponse.FromString(message)
        except DecodeError:
            return ""
        if response.response_type == TopicLookupResponse.Failed:
            return ""
        address = self._brokers.target(_named(response))
        return shown(address) if address is not None else ""

    def _by_port(self, response: TopicLookupResponse) -> bool:
        """Name the gateway's port for the broker, or for the proxy in front of it; False if it has none."""
        gate = self._brokers.port_of(response.connect_url)
        if gate is None or (response.proxy and self._brokers.target(response.broker_url) is None):
            return False
        response.connect_url = self._url(gate, response.connect_url)
        if not response.proxy:
            response.broker_url = response.connect_url
        return True

    def _by_metadata(self, response: TopicLookupResponse) -> bool:
        """Name the gateway's only address, and the broker as it names itself; False if it is unknown."""
        name = _named(response)
        if self._brokers.target(name) is None:
            return False
        response.connect_url = self._url(self._brokers.main, response.connect_url)
        response.broker_url, response.proxy = name, True
        return True

    def _url(self, gate: Address, like: str) -> str:
        """An address of the gateway in the form of the broker's own, as some clients need a scheme."""
        return f"{self._scheme}://{shown(gate)}" if "://" in like else shown(gate)


def _named(response: TopicLookupResponse) -> str:
    """The broker that an answer leads to."""
    return response.broker_url if response.proxy else response.connect_url
