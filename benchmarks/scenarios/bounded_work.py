"""How long one turn of the event loop may take: the worst that a client can send, for each kind of walk."""

import gc
import struct
import time
from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.harness.arms import Bench
from benchmarks.harness.gates import gate_cache
from benchmarks.harness.names import ENGINE
from benchmarks.harness.scenario import Scenario
from benchmarks.harness.sessions import NOW_NS, Services, Timed
from sluicegate.engine.sink import NullSink
from sluicegate.model import PolicyValue
from sluicegate_grpc.fields import Plan
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.nodes import Nodes
from sluicegate_kafka.session import KafkaSession
from sluicegate_kafka.shared import Shared as KafkaShared
from sluicegate_pulsar.brokers import Brokers
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import command_frame, payload_frame
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.session import PulsarSession
from sluicegate_pulsar.shared import Shared as PulsarShared

_READ = 256_000
"""Bytes that the event loop reads at once."""
_TINY = b"\x0c\0\0\0\x01\x01\0"
_TYPES = pb.BaseCommand.Type
_OVER = object()


def _bounded_work(_: Bench, _name: str, quick: bool) -> dict[str, float]:
    scale = 20 if quick else 1
    values: dict[str, float] = {"gc_of_10k_topics_ms": _collection_ms(scale)}
    for name, case in _CASES.items():
        gc.disable()
        try:
            slices_ms = case(scale)
        finally:
            gc.enable()
            gc.collect()
        values[f"{name}_ms"] = max(slices_ms)
        values[f"{name}_slices"] = len(slices_ms)
        values[f"{name}_total_ms"] = sum(slices_ms)
    return values


def _collection_ms(scale: int) -> float:
    """What the garbage collector takes once so many topics have come; it is not part of the slices."""
    cache = gate_cache({}, NullSink())
    gc.collect()
    gc.freeze()
    for number in range(10_000 // scale):
        cache.get(f"topic-{number}", False, NOW_NS)
    taken_ms = _timed(gc.collect)
    gc.unfreeze()
    return taken_ms


# -- Kafka ----------------------------------------------------------------------------------------


def _kafka(policies: Mapping[str, PolicyValue]) -> Timed:
    entry = {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}
    config = KafkaConfig.model_validate(entry)
    shared = KafkaShared(config, Services(policies), Nodes("gate", "127.0.0.1", 19_100))
    shared.listing.learned({}, NOW_NS, NOW_NS)
    return Timed(KafkaSession(shared, "10.0.0.1:5000", "node-1", NOW_NS))


def _request(api_key: int, version: int, body: bytes) -> bytes:
    """A request of a version that is not flexible."""
    head = struct.pack(">hhi", api_key, version, 1) + _text("app")
    return struct.pack(">i", len(head) + len(body)) + head + body


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _batch(records: bytes, count: int) -> bytes:
    size = 49 + len(records)
    return struct.pack(">qiibIhiqqqhii", 0, size, 0, 2, 0, 0, 0, 10, 20, -1, -1, -1, count) + records


def _produce(topics: Mapping[str, Mapping[int, bytes]]) -> bytes:
    parts = [b"\xff\xff", struct.pack(">hii", -1, 30_000, len(topics))]
    for topic, partitions in topics.items():
        parts.append(_text(topic) + struct.pack(">i", len(partitions)))
        for index, records in partitions.items():
            parts += [struct.pack(">ii", index, len(records)), records]
    return _request(0, 8, b"".join(parts))


def _kafka_records(mib: int) -> Callable[[int], list[float]]:
    def case(scale: int) -> list[float]:
        count = mib * 2**20 // len(_TINY) // scale
        timed = _kafka({"max_message_size": 10 * 2**20 // scale})
        timed.client(_produce({"t": {0: _batch(_TINY * count, count)}}))
        return timed.slices_ms

    return case


def _kafka_topics(scale: int) -> list[float]:
    timed = _kafka({"max_publish_rate": 10**9, "max_producers_per_topic": 10})
    one = _batch(_TINY, 1)
    timed.client(_produce({f"topic-{number}": {0: one} for number in range(10_000 // scale)}))
    return timed.slices_ms


def _kafka_partitions(scale: int) -> list[float]:
    timed = _kafka({"max_publish_rate": 10**9})
    one = _batch(_TINY, 1)
    timed.client(_produce({"t": dict.fromkeys(range(19_000 // scale), one)}))
    return timed.slices_ms


def _kafka_join(scale: int) -> list[float]:
    timed = _kafka({"max_consumers_per_topic": 10})
    names = [f"topic-{number}" for number in range(10_000 // scale)]
    metadata = struct.pack(">hi", 0, len(names)) + b"".join(map(_text, names)) + struct.pack(">i", 0)
    protocol = _text("range") + struct.pack(">i", len(metadata)) + metadata
    body = _text("g") + struct.pack(">ii", 30_000, 30_000) + _text("m") + b"\xff\xff" + _text("consumer")
    timed.client(_request(11, 5, body + struct.pack(">i", 1) + protocol))
    return timed.slices_ms


def _kafka_commit(scale: int) -> list[float]:
    timed = _kafka({"max_subscriptions_per_topic": 10})
    partitions = b"".join(struct.pack(">iqih", index, 5, -1, 0) for index in range(100_000 // scale))
    body = _text("g") + struct.pack(">i", -1) + _text("") + b"\xff\xff" + struct.pack(">i", 1)
    body += _text("t") + struct.pack(">i", 100_000 // scale) + partitions
    timed.client(_request(8, 7, body))
    return timed.slices_ms


# -- Pulsar ---------------------------------------------------------------------------------------

_TOPIC = "persistent://public/default/t"


def _pulsar(policies: Mapping[str, PolicyValue]) -> Timed:
    entry = {"name": "p", "system": "pulsar", "bootstrap": ["b:6650"], "listen": {"port": 19_000}}
    config = PulsarConfig.model_validate(entry)
    brokers = Brokers(config, {})
    brokers.start()
    session = PulsarSession(
        PulsarShared(config, Services(policies), brokers), "10.0.0.1:5000", config.addresses
    )
    timed = Timed(session)
    timed.client(_command("connect", client_version="Pulsar-CPP-v4.2.0", protocol_version=20))
    timed.broker(_command("connected", server_version="Pulsar", protocol_version=20))
    timed.client(_command("producer", topic=_TOPIC, producer_id=0, request_id=1))
    timed.broker(_command("producer_success", request_id=1, producer_name="p-0"))
    timed.forget()
    return timed


def _command(kind: str, **fields: object) -> bytes:
    return command_frame(pb.BaseCommand(type=_TYPES.Value(kind.upper()), **{kind: fields}))


def _send(sequence_id: int, payload: bytes = b"x", **fields: object) -> bytes:
    send = pb.BaseCommand(type=_TYPES.SEND, send={"producer_id": 0, "sequence_id": sequence_id})
    known = {"producer_name": "p-0", "sequence_id": sequence_id, "publish_time": 1, **fields}
    return payload_frame(send, pb.MessageMetadata(**known).SerializeToString(), payload)  # type: ignore[arg-type]


def _pulsar_sends(scale: int) -> list[float]:
    timed = _pulsar({"max_publish_rate": 10**9})
    one = _send(0)
    timed.client(one * (_READ // len(one) // scale))
    return timed.slices_ms


def _pulsar_batch(scale: int) -> list[float]:
    timed = _pulsar({"max_message_size": 1_000})
    single = pb.SingleMessageMetadata(payload_size=1).SerializeToString()
    count = 100_000 // scale
    timed.client(
        _send(0, (struct.pack(">I", len(single)) + single + b"x") * count, num_messages_in_batch=count)
    )
    return timed.slices_ms


def _pulsar_queue(scale: int) -> list[float]:
    count = 20_000 // scale
    timed = _pulsar({"max_publish_rate": count})
    frames = [_send(number) for number in range(2 * count)]
    for start in range(0, len(frames), 500):
        timed.client(b"".join(frames[start : start + 500]), goes_on=False)
    timed.forget()
    timed.later(2)
    timed.go_on()
    return timed.slices_ms


def _pulsar_ack(scale: int) -> list[float]:
    timed = _pulsar({"max_unacked_messages_per_consumer": 10**6})
    timed.client(
        _command("subscribe", topic=_TOPIC, subscription="s", consumer_id=0, request_id=2, sub_type=1)
    )
    timed.broker(_command("success", request_id=2))
    timed.forget()
    ids = [{"ledger_id": 1, "entry_id": number} for number in range(40_000 // scale)]
    timed.client(_command("ack", consumer_id=0, ack_type=0, message_id=ids))
    return timed.slices_ms


# -- gRPC and the engine --------------------------------------------------------------------------


def _timed(call: Callable[[], object]) -> float:
    began = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - began) / 1e6


def _grpc_fields(scale: int) -> list[float]:
    message = b"\x50\x01" * (2 * 2**20 // scale)
    plan = Plan({"topic": (1,), "payload": (3,)})
    return [_timed(lambda: plan.read(message, 0, len(message)))]


def _one_more_topic(scale: int) -> list[float]:
    cache = gate_cache({}, NullSink())
    for number in range(20_000 // scale):
        cache.get(f"topic-{number}", False, NOW_NS).state.producers.attach("p", "a")
    return [_timed(partial(cache.get, f"more-{number}", False, NOW_NS)) for number in range(50)]


def _sweep(scale: int) -> list[float]:
    cache = gate_cache({}, NullSink())
    for number in range(10_000 // scale):
        cache.get(f"topic-{number}", False, NOW_NS)
    cache.replace()
    slices = cache.drop_unused()
    found: list[float] = []
    while True:
        began = time.thread_time_ns()
        is_over = next(slices, _OVER) is _OVER
        found.append((time.thread_time_ns() - began) / 1e6)
        if is_over:
            return found


_CASES: Mapping[str, Callable[[int], list[float]]] = {
    "kafka_records_12mib": _kafka_records(12),
    "kafka_records_90mib": _kafka_records(90),
    "kafka_10k_topics": _kafka_topics,
    "kafka_19k_partitions": _kafka_partitions,
    "kafka_join_10k_topics": _kafka_join,
    "kafka_commit_100k": _kafka_commit,
    "pulsar_small_sends": _pulsar_sends,
    "pulsar_batch_100k": _pulsar_batch,
    "pulsar_queue_20k": _pulsar_queue,
    "pulsar_ack_40k": _pulsar_ack,
    "grpc_4mib_of_fields": _grpc_fields,
    "one_more_topic": _one_more_topic,
    "sweep_of_gates": _sweep,
}

SCENARIOS = (
    Scenario(
        "bounded-work",
        "longest turn of the event loop for the worst that a client can send",
        (ENGINE,),
        _bounded_work,
        rounds=3,
        cold_round=False,
    ),
)
