"""Where topics are served: no client may learn an address by which it would go round the gate.

Answers of TopicLookup are rewritten as bytes, so that fields which this version does not know stay. Other
answers carry no address that a client connects to: TopicPartitions names partitions only, and the
`broker_addr` of a delivered message is what its producer wrote there.
"""

from collections.abc import Iterator
from typing import Literal

from sluicegate.broker_ports import Address, BrokerPorts, shown

RESPONSE_TYPE, CONNECT_URL, BROKER_URL, PROXY = 4, 5, 6, 7
"""Field numbers of TopicLookupResponse."""
FAILED = 2
"""LookupType of an answer without a broker."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}


class Lookup:
    """Rewrites answers of TopicLookup.

    :param brokers: those that clients may be sent to.
    :param route: as in the configuration.
    :param client_tls: whether clients speak TLS with the gate.
    """

    def __init__(self, brokers: BrokerPorts, route: Literal["ports", "metadata"], client_tls: bool) -> None:
        self._brokers = brokers
        self._route = route
        self._scheme = "https" if client_tls else "http"
        self.refused = 0
        """Answers that named a broker which is not known."""

    def rewrite(self, message: bytes) -> bytes | None:
        """Put the gate in the place of the broker that an answer names.

        :param message: a TopicLookupResponse as the broker wrote it.
        :return: what the client gets instead; None where that is the same.
        """
        try:
            kind, connect_url, broker_url, proxy, others = _read(message)
        except ValueError:
            self.refused += 1
            return _varint_field(RESPONSE_TYPE, FAILED)
        if kind == FAILED:
            return None if not connect_url and not broker_url else others
        place = self._by_metadata if self._route == "metadata" else self._by_port
        told = place(connect_url, broker_url, proxy)
        if told is None:
            self.refused += 1
            return others + _varint_field(RESPONSE_TYPE, FAILED)
        gate, identity, proxied = told
        return (
            others
            + _text_field(CONNECT_URL, gate)
            + _text_field(BROKER_URL, identity)
            + (_varint_field(PROXY, 1) if proxied else b"")
        )

    def _by_port(self, connect_url: str, broker_url: str, proxy: bool) -> tuple[str, str, bool] | None:
        """Lead to the port that stands for the broker, or for the proxy that is in front of it."""
        gate = self._brokers.port_of(connect_url)
        if gate is None or (proxy and self._brokers.target(broker_url) is None):
            return None
        url = self._url(gate, connect_url)
        return (url, broker_url, True) if proxy else (url, url, False)

    def _by_metadata(self, connect_url: str, broker_url: str, proxy: bool) -> tuple[str, str, bool] | None:
        """Lead to the one address; in calls that come there the broker is named as it names itself."""
        name = broker_url if proxy else connect_url
        if self._brokers.target(name) is None:
            return None
        return self._url(self._brokers.main, connect_url), name, True

    def _url(self, gate: Address, like: str) -> str:
        """An address of the gate in the form of the broker's own: some clients want a scheme."""
        return f"{self._scheme}://{shown(gate)}" if "://" in like else shown(gate)


def _read(message: bytes) -> tuple[int, str, str, bool, bytes]:
    """What an answer says, and the fields of it that are not about addresses.

    :return: LookupType, `connect_url`, `broker_url`, `proxy`, the other fields as bytes.
    :raises ValueError: if it is no protobuf message.
    """
    kind, proxy, urls = 0, False, {CONNECT_URL: "", BROKER_URL: ""}
    others = bytearray()
    for field, wire_type, start, value_at, stop in _fields(message):
        if field in urls and wire_type == _BYTES:
            urls[field] = message[value_at:stop].decode()
        elif field == PROXY and wire_type == _VARINT:
            proxy = bool(_varint(message, value_at)[0])
        else:
            if field == RESPONSE_TYPE and wire_type == _VARINT:
                kind = _varint(message, value_at)[0]
            others += message[start:stop]
    return kind, urls[CONNECT_URL], urls[BROKER_URL], proxy, bytes(others)


def _fields(message: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """The fields of a protobuf message: number, wire type, and where field, value and end are."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        wire_type, value_at = tag & 7, at
        if wire_type == _VARINT:
            _, at = _varint(message, at)
        elif wire_type == _BYTES:
            length, value_at = _varint(message, at)
            at = value_at + length
        elif wire_type in _FIXED_BYTES:
            at += _FIXED_BYTES[wire_type]
        else:
            raise ValueError(f"expected a wire type of proto3, not {wire_type}")
        if at > len(message) or tag >> 3 == 0:
            raise ValueError("a field that does not end, or has no number")
        yield tag >> 3, wire_type, start, value_at, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ValueError("a number that does not end")


def _varint_bytes(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _varint_field(field: int, value: int) -> bytes:
    return _varint_bytes(field << 3 | _VARINT) + _varint_bytes(value)


def _text_field(field: int, value: str) -> bytes:
    data = value.encode()
    return _varint_bytes(field << 3 | _BYTES) + _varint_bytes(len(data)) + data
