"""A service of a made-up broker, and its messages; gRPC's framing and protobuf written by hand."""

from collections.abc import Iterator

from sluicegate.model import Method, MethodMap, Role

ATTACH, SUBSCRIBE = "/t.Broker/Attach", "/t.Broker/Subscribe"
PUBLISH, RECEIVE = "/t.Broker/Publish", "/t.Broker/Receive"
OTHER = "/t.Other/Anything"
METHODS = MethodMap(
    "made-up",
    {
        ATTACH: Method(Role.ATTACH_PRODUCER, topic=(1,), producer=(2,), reliable=(3,), attachment=(1,)),
        SUBSCRIBE: Method(Role.SUBSCRIBE, topic=(1,), consumer=(2,), subscription=(3,), attachment=(1,)),
        PUBLISH: Method(Role.PUBLISH, topic=(1,), producer=(2,), payload=(3,)),
        RECEIVE: Method(Role.DISPATCH, consumer=(1,), payload=(1,), position=(2,)),
    },
)


def varint(value: int) -> bytes:
    """A number, seven bits a byte."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    """One field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """One message, as gRPC frames it."""
    raw = b"".join(field(number, value) for number, value in fields)
    return framed(raw)


def framed(raw: bytes, compressed: int = 0) -> bytes:
    """An encoded message with gRPC's prefix."""
    return bytes((compressed,)) + len(raw).to_bytes(4) + raw


def messages(data: bytes) -> Iterator[bytes]:
    """The whole messages in what came of a stream, prefixes and all."""
    start = 0
    while start < len(data):
        end = start + 5 + int.from_bytes(data[start + 1 : start + 5])
        if end > len(data):
            return
        yield data[start:end]
        start = end


def request(path: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """Headers of a call."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "broker.test:50051"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *more,
    ]


ANSWER = [(":status", "200"), ("content-type", "application/grpc")]
OK = [("grpc-status", "0")]


def publish(topic: str, producer: int, payload: bytes) -> bytes:
    """The request of PUBLISH."""
    return message((1, topic), (2, producer), (3, payload))
