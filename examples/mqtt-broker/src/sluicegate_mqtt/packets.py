"""Control packets of MQTT 3.1, 3.1.1 and 5, as far as policies about publishing need them."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

MQTT_5 = 5
"""Protocol level from which on packets have properties, and acknowledgements can refuse."""
_TOPIC_ALIAS, _REASON_STRING = 0x23, 0x1F
# Sizes of properties by identifier; negative: that many strings or binaries with a length of two bytes each.
_SIZES = {0x01: 1, 0x02: 4, 0x03: -1, 0x08: -1, 0x09: -1, _TOPIC_ALIAS: 2, 0x26: -2}
_SUBSCRIPTION = 0x0B
"""Identifier of the only property of PUBLISH that is a variable number."""
_LONGEST_REASON = 1_000


class Kind(IntEnum):
    """Types of packets."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5


class Refusal(IntEnum):
    """Reason codes of PUBACK and PUBREC for a message that is not taken."""

    NOT_ACCEPTED = 0x83
    QUOTA_EXCEEDED = 0x97


class MalformedError(ValueError):
    """Bytes that are no packet."""


@dataclass(frozen=True, slots=True)
class Connect:
    """What a client says of itself."""

    level: int
    client_id: str
    user: str
    """Empty if it gives none."""


@dataclass(frozen=True, slots=True)
class Publish:
    """One message."""

    topic: str
    """Empty if `alias` stands for it."""
    alias: int
    """0 if it has none."""
    qos: int
    packet_id: int
    """0 for QoS 0."""
    payload: int
    """Bytes."""


class _Reader:
    """Reads fields from the beginning of a packet's body."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        end = self.at + count
        if end > len(self.data):
            raise MalformedError("a packet ends within a field")
        taken, self.at = self.data[self.at : end], end
        return taken

    def number(self, count: int = 2) -> int:
        return int.from_bytes(self.take(count), "big")

    def text(self) -> str:
        return self.take(self.number()).decode()

    def variable(self) -> int:
        """A variable byte integer."""
        value = 0
        for shift in range(0, 28, 7):
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedError("a length has more than four bytes")

    def properties(self) -> "_Reader":
        return _Reader(self.take(self.variable()))


def packets(data: bytearray, largest: int) -> Iterator[bytes]:
    """Take the complete packets from the beginning of what has arrived; a started one stays.

    :param largest: bytes of a packet.
    :raises MalformedError: if there is none, or a larger one.
    """
    while len(data) >= 2:
        head = _Reader(bytes(data[:5]))
        head.take(1)
        try:
            length = head.variable()
        except MalformedError:
            if len(data) >= 5:
                raise
            return
        end = head.at + length
        if end > largest:
            raise MalformedError(f"a packet has {end} bytes, at most {largest} are taken")
        if len(data) < end:
            return
        packet = bytes(data[:end])
        del data[:end]
        yield packet


def _body(packet: bytes) -> _Reader:
    reader = _Reader(packet)
    reader.take(1)
    reader.variable()
    return reader


def read_connect(packet: bytes) -> Connect:
    """Read a CONNECT.

    :raises ValueError: if it is malformed.
    """
    body = _body(packet)
    body.text()
    level, flags, _ = body.number(1), body.number(1), body.number()
    if level >= MQTT_5:
        body.properties()
    client_id = body.text()
    if flags & 0x04:  # a will: its properties, topic and payload
        if level >= MQTT_5:
            body.properties()
        body.text()
        body.take(body.number())
    return Connect(level, client_id, body.text() if flags & 0x80 else "")


def is_accepted(packet: bytes) -> bool:
    """Whether a CONNACK accepts the client."""
    body = _body(packet)
    body.take(1)
    return body.number(1) == 0


def read_publish(packet: bytes, level: int) -> Publish:
    """Read a PUBLISH.

    :param level: of the protocol.
    :raises ValueError: if it is malformed.
    """
    body = _body(packet)
    topic, qos = body.text(), packet[0] >> 1 & 3
    packet_id = body.number() if qos else 0
    alias = _alias(body.properties()) if level >= MQTT_5 else 0
    return Publish(topic, alias, qos, packet_id, len(packet) - body.at)


def _alias(properties: _Reader) -> int:
    while properties.at < len(properties.data):
        identifier = properties.number(1)
        if identifier == _TOPIC_ALIAS:
            return properties.number()
        if identifier == _SUBSCRIPTION:
            properties.variable()
            continue
        size = _SIZES.get(identifier)
        if size is None:
            raise MalformedError(f"a message has an unknown property {identifier:#04x}")
        for _ in range(-size):
            properties.take(properties.number())
        properties.take(max(size, 0))
    return 0


def refusal(publish: Publish, code: Refusal, reason: str) -> bytes:
    """The answer of MQTT 5 to a message of QoS 1 or 2 that is not taken."""
    text = reason.encode()[:_LONGEST_REASON].decode(errors="ignore").encode()
    properties = bytes((_REASON_STRING,)) + len(text).to_bytes(2, "big") + text
    body = publish.packet_id.to_bytes(2, "big") + bytes((code,)) + variable(len(properties)) + properties
    kind = Kind.PUBACK if publish.qos == 1 else Kind.PUBREC
    return bytes((kind << 4,)) + variable(len(body)) + body


def variable(value: int) -> bytes:
    """A number as a variable byte integer."""
    encoded = bytearray()
    while True:
        value, byte = value >> 7, value & 0x7F
        encoded.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(encoded)
