"""What a policy that reads headers adds to a message: on the wire of Kafka and Pulsar, and to a gRPC call.

Messages have 100 bytes and two headers, of which one is another for each message, as the id of a trace is.
"""

import struct
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from typing import Final, TypeAlias

from benchmarks.harness import kafka_long_bytes as kafka
from benchmarks.harness import pulsar_bytes
from benchmarks.harness.arms import Bench
from benchmarks.harness.names import ENGINE
from benchmarks.harness.room_sessions import kafka_session, pulsar_session
from benchmarks.harness.scenario import Scenario
from benchmarks.harness.small_messages import produce_request, produced
from sluicegate.config.models import GatewayConfig
from sluicegate.embedded import PolicyEngine, ServiceConfig
from sluicegate.model import Level, Method, MethodMap, PolicyLayer, PolicyValue, Role, Setting, Source
from sluicegate.testing import NullSink
from sluicegate_grpc.interceptors.enforcer import CallEnforcer
from sluicegate_grpc.semantics.calls import Caller
from sluicegate_pulsar.codec import pulsar_pb2 as pb

_ROUNDS = 9
_BATCH = 100
"""Messages of a batch; `alone` are a Kafka batch of one, and a Pulsar message that is no batch."""
_REQUESTS = 100
"""Different requests, one after the other."""
_HEADERS: Final = (("source", b"benchmark"), ("trace-id", b"%032d"))
_POLICIES: Final[Mapping[str, Mapping[str, PolicyValue]]] = {
    "without": {"max_publish_rate": 10**9},
    "one_adds": {"max_publish_rate": 10**9, "required_headers": "trace-id"},
    "three_add": {
        "max_publish_rate": 10**9,
        "required_headers": "trace-id",
        "forbidden_headers": "x-secret-*",
        "remove_headers": "x-debug",
    },
}
_METHOD = "/bench.Broker/Send"
_MAP = MethodMap(
    "service", {_METHOD: Method(Role.PUBLISH, topic=(1,), producer=(2,), payload=(3,), headers=(4,))}
)

_Arm: TypeAlias = Callable[[int], float]
"""`(messages)` -> CPU nanoseconds of each."""
_System: TypeAlias = Callable[[Mapping[str, PolicyValue], ExitStack], _Arm]
"""`(policies, stack that closes what it opens)`"""


def _measure(_: Bench, _name: str, quick: bool) -> dict[str, float]:
    messages = 2_000 if quick else 20_000
    values: dict[str, float] = {}
    for name, system in _SYSTEMS.items():
        with ExitStack() as stack:
            arms = {each: system(policies, stack) for each, policies in _POLICIES.items()}
            best = dict.fromkeys(arms, float("inf"))
            for _round in range(_ROUNDS):  # in turn, so that what else the machine does meets all alike
                for each, arm in arms.items():
                    best[each] = min(best[each], arm(messages))
        without = best.pop("without")
        values[f"{name}_without_us"] = without / 1e3
        for each, taken in best.items():
            values[f"{name}_{each}_us"] = (taken - without) / 1e3
    return values


def _headers_of(number: int) -> list[tuple[str, bytes]]:
    return [(name, value % number if b"%" in value else value) for name, value in _HEADERS]


# -- Kafka ----------------------------------------------------------------------------------------


def _kafka(count: int, policies: Mapping[str, PolicyValue], stack: ExitStack) -> _Arm:
    timed = kafka_session(policies)
    records = kafka.batch(b"".join(map(_record, range(count))), count)
    requests = [(produce_request(records, number), produced(number)) for number in range(_REQUESTS)]

    def arm(messages: int) -> float:
        timed.forget()
        for request, answer in islice(cycle(requests), messages // count):
            timed.client(request)
            timed.broker(answer)
        return sum(timed.slices_ms) * 1e6 / messages

    return arm


def _record(number: int) -> bytes:
    def field(content: bytes) -> bytes:
        return kafka.uvarint(2 * len(content)) + content

    headers = b"".join(field(name.encode()) + field(value) for name, value in _headers_of(number))
    delta = kafka.uvarint(2 * number)
    rest = b"".join((bytes(1), delta, delta, field(b"key-%03d" % number), field(bytes(100)), b"\4", headers))
    return field(rest)


# -- Pulsar ---------------------------------------------------------------------------------------


def _pulsar(count: int, policies: Mapping[str, PolicyValue], stack: ExitStack) -> _Arm:
    timed = pulsar_session(policies)
    if count > 1:
        frame = pulsar_bytes.send(0, b"".join(map(_single, range(count))), num_messages_in_batch=count)
    else:
        frame = pulsar_bytes.send(0, bytes(100), partition_key="key-000", properties=_properties_of(0))
    receipt = pulsar_bytes.command(
        "send_receipt", producer_id=0, sequence_id=0, message_id={"ledger_id": 1, "entry_id": 1}
    )

    def arm(messages: int) -> float:
        timed.forget()
        for _ in range(messages // count):
            timed.client(frame)
            timed.broker(receipt)
        return sum(timed.slices_ms) * 1e6 / messages

    return arm


def _single(number: int) -> bytes:
    single = pb.SingleMessageMetadata(
        payload_size=100, partition_key=f"key-{number:03}", properties=_properties_of(number)
    ).SerializeToString()
    return struct.pack(">I", len(single)) + single + bytes(100)


def _properties_of(number: int) -> list[pb.KeyValue]:
    return [pb.KeyValue(key=name, value=value.decode()) for name, value in _headers_of(number)]


# -- gRPC -----------------------------------------------------------------------------------------


def _grpc(policies: Mapping[str, PolicyValue], stack: ExitStack) -> _Arm:
    config = GatewayConfig(brokers=(ServiceConfig(name="bench", system="service"),))
    settings = {name: Setting(value, Source.FILE, "benchmark") for name, value in policies.items()}
    layers = [PolicyLayer(Level.BROKER, "", settings)]
    engine = stack.enter_context(PolicyEngine(config, layers, sink=NullSink()))
    enforcer = CallEnforcer(engine, _MAP, 0, lists=False)
    policed = enforcer.policed(_METHOD)
    assert policed is not None
    caller = Caller("ANONYMOUS", "10.0.0.1:5000")
    requests = [_request(number) for number in range(_REQUESTS)]

    def arm(messages: int) -> float:
        began = time.thread_time_ns()
        for request in islice(cycle(requests), messages):
            assert enforcer.police(policed, policed.read(request), request, caller) is None
        return (time.thread_time_ns() - began) / messages

    return arm


def _request(number: int) -> bytes:
    def field(tag: int, content: bytes) -> bytes:
        return bytes((tag, len(content))) + content

    headers = [
        field(0x22, field(0xA, name.encode()) + field(0x12, value)) for name, value in _headers_of(number)
    ]
    return b"".join((field(0xA, b"orders"), field(0x12, b"p1"), field(0x1A, bytes(100)), *headers))


_SYSTEMS: Final[Mapping[str, _System]] = {
    "kafka": partial(_kafka, _BATCH),
    "kafka_alone": partial(_kafka, 1),
    "pulsar": partial(_pulsar, _BATCH),
    "pulsar_alone": partial(_pulsar, 1),
    "grpc": _grpc,
}
SCENARIOS = (
    Scenario(
        "message-policies",
        "what policies for headers add to a message",
        (ENGINE,),
        _measure,
        cold_round=False,
    ),
)
