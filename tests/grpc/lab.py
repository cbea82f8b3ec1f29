"""A tiny gRPC broker in two kinds, its messages encoded by hand, and engines with policies for it."""

import math
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo, QuotaFailure, RetryInfo
from google.rpc.status_pb2 import Status

from sluicegate.config.models import GatewayConfig
from sluicegate.embedded import PolicyEngine, ServiceConfig
from sluicegate.model import (
    Level,
    Method,
    MethodMap,
    PolicyLayer,
    PolicyValue,
    Role,
    Setting,
    Source,
)
from sluicegate.testing import RecordingSink

SECOND = 1_000_000_000
TOPIC = "/default/orders"
SERVICE = "t.Broker"
P = f"/{SERVICE}/"
MAP = MethodMap(
    "service",
    {
        P + "Create": Method(Role.ATTACH_PRODUCER, topic=(1,), producer=(2,), reliable=(3,), attachment=(1,)),
        P + "Send": Method(Role.PUBLISH, producer=(1,), payload=(2,), headers=(7,)),
        P + "SendAll": Method(Role.PUBLISH, topic=(1,), payload=(2,), headers=(7,)),
        P + "Talk": Method(Role.PUBLISH, topic=(1,), payload=(2,), headers=(7,)),
        P + "Subscribe": Method(
            Role.SUBSCRIBE, topic=(1,), subscription=(2,), consumer=(3,), attachment=(1,)
        ),
        P + "Receive": Method(Role.DISPATCH, consumer=(1,), payload=(2,), position=(1,), published=(3,)),
        P + "Follow": Method(
            Role.DISPATCH, topic=(1,), subscription=(2,), consumer=(3,), payload=(2,), position=(1,)
        ),
        P + "Ack": Method(Role.ACKNOWLEDGE, topic=(1,), subscription=(2,), position=(3,)),
        P + "Ping": Method(Role.KEEP_ALIVE, attachment=(1,)),
        P + "Leave": Method(Role.DETACH, attachment=(1,)),
    },
)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def message(fields: Mapping[int, int | str | bytes]) -> bytes:
    """Encode fields as protobuf does."""
    out = b""
    for number, value in fields.items():
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return out


def number(data: bytes) -> int:
    """The value of field 1 of a message that has it first, if it is a number."""
    value = shift = 0
    for byte in data[1:]:
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value


def create(name: str, *, topic: str = TOPIC, reliable: bool = True) -> bytes:
    return message({1: topic, 2: name, 3: int(reliable)})


def subscribe(consumer: str, subscription: str = "s", topic: str = TOPIC) -> bytes:
    return message({1: topic, 2: subscription, 3: consumer})


def send(producer: int, size: int = 10) -> bytes:
    return message({1: producer, 2: b"x" * size})


def delivered(position: int, size: int = 10, published: int = 0) -> bytes:
    return message({1: position, 2: b"x" * size, **({3: published} if published else {})})


def settings(**values: PolicyValue) -> PolicyLayer:
    made = {name.replace("__", "."): Setting(value, Source.FILE, "test") for name, value in values.items()}
    return PolicyLayer(Level.BROKER, "", made)


def engine(
    sink: RecordingSink | None = None, max_hold_ms: int = 10_000, **values: PolicyValue
) -> PolicyEngine:
    """An engine with policies at broker level; `__` in a name stands for a dot."""
    broker = ServiceConfig(name="shop", system="service", max_hold=max_hold_ms)
    config = GatewayConfig(brokers=(broker,))
    return PolicyEngine(config, [settings(**values)], sink=sink or RecordingSink())


HOUR_MS = 3_600_000
HOLDING: Mapping[str, Any] = {
    "max_publish_rate_bytes": 1,
    "burst_seconds": 1000,
    "on_limit__max_publish_rate_bytes": "delay",
}
"""After 1000 bytes the next 1000 are held for 1000 s: longer than any test takes."""


def burst_of(messages: int) -> dict[str, Any]:
    """A publish rate that lets so many messages through, and the next one after 4096 s at most."""
    return {
        "max_publish_rate": messages / 4096,
        "burst_seconds": 4096.0,
    }  # a power of two: nothing is rounded


def waiting(of: PolicyEngine) -> int:
    """How many publishes HOLDING holds."""
    with of.lock:
        return int(of.gate(TOPIC, False, 0).state.limiters["max_publish_rate"].waiting)


def producers(of: PolicyEngine, topic: str = TOPIC) -> int:
    with of.lock:
        return len(of.gate(topic, False, monotonic_ns()).state.producers)


def consumers(of: PolicyEngine, topic: str = TOPIC) -> int:
    with of.lock:
        return of.gate(topic, False, monotonic_ns()).state.consumer_count


@dataclass(slots=True)
class Told:
    """What a refused call told its client."""

    code: grpc.StatusCode
    text: str
    info: ErrorInfo | None = None
    retry_s: float | None = None
    violations: list[str] = field(default_factory=list)


def told(error: Any) -> Told:
    """Read the error of a call of either kind."""
    found = Told(error.code(), error.details())
    trailers = dict(tuple(error.trailing_metadata() or ()))
    if "grpc-status-details-bin" in trailers:
        status = Status.FromString(trailers["grpc-status-details-bin"])
        assert (status.code, status.message) == (found.code.value[0], found.text)
        for detail in status.details:
            _read(detail, found)
    pushback_ms = None if found.retry_s is None else str(math.ceil(found.retry_s * 1000))
    assert trailers.get("grpc-retry-pushback-ms") == pushback_ms
    return found


def _read(detail: Any, found: Told) -> None:
    info, retry, quota = ErrorInfo(), RetryInfo(), QuotaFailure()
    if detail.Unpack(info):
        found.info = found.info or info
    elif detail.Unpack(retry):
        found.retry_s = retry.retry_delay.ToNanoseconds() / SECOND
    elif detail.Unpack(quota):
        found.violations += [violation.subject for violation in quota.violations]


class Broker:
    """What both kinds of handlers do; a handler with the request `crash` raises."""

    def __init__(self, messages: int = 0, published_ms: int = 0) -> None:
        self.messages = messages
        self.published_ms = published_ms
        self.sent = 0
        self.last = b""
        """The message that came last."""
        self.last_id = 0
        self.blocked = threading.Event()
        """Set once a call waits in the handler for `go`."""
        self.go = threading.Event()

    def attach(self, request: bytes) -> bytes:
        if b"crash" in request:
            raise RuntimeError("crash")
        self.last_id += 1
        return message({1: self.last_id})

    def publish(self, request: bytes) -> bytes:
        if b"crash" in request:
            raise RuntimeError("crash")
        self.sent += 1
        self.last = request
        return b""

    def deliveries(self) -> Iterator[bytes]:
        for position in range(1, self.messages + 1):
            yield delivered(position, published=self.published_ms)


_KINDS = {
    "Create": "unary_unary",
    "Send": "unary_unary",
    "SendAll": "stream_unary",
    "Talk": "stream_stream",
    "Subscribe": "unary_unary",
    "Receive": "unary_stream",
    "Follow": "stream_stream",
    "Ack": "unary_unary",
    "Ping": "unary_unary",
    "Leave": "unary_unary",
    "Other": "unary_unary",
}


def handlers(behaviors: object) -> Any:
    """The service out of an object with a method for each of its methods."""
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            name: getattr(grpc, f"{kind}_rpc_method_handler")(getattr(behaviors, name))
            for name, kind in _KINDS.items()
        },
    )


async def every(requests: AsyncIterator[bytes]) -> list[bytes]:
    return [request async for request in requests]
