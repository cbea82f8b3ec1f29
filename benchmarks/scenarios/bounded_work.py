"""The longest turn of the event loop for the worst input of each kind."""

import gc
import struct
import time
from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.harness import long_http2, long_kafka, pulsar_bytes
from benchmarks.harness.arms import Bench
from benchmarks.harness.gates import gate_cache
from benchmarks.harness.names import ENGINE
from benchmarks.harness.pulsar_bytes import payload_frame
from benchmarks.harness.room_sessions import PULSAR_TOPIC, pulsar_session
from benchmarks.harness.scenario import Scenario
from benchmarks.harness.sessions import NOW_NS, Timed
from sluicegate.processes import collecting
from sluicegate.testing import NullSink
from sluicegate_grpc.semantics.fields import Plan
from sluicegate_pulsar.codec import pulsar_pb2 as pb

_READ = 256_000
"""Bytes that the event loop reads at once."""
_TYPES = pb.BaseCommand.Type
_OVER = object()


def _bounded_work(_: Bench, _name: str, quick: bool) -> dict[str, float]:
    scale = 20 if quick else 1
    values = _collections_ms(scale)
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


def _collections_ms(scale: int) -> dict[str, float]:
    """The longest collection while topics come, and a whole one behind that, with a worker's settings."""
    caches = [gate_cache({"max_publish_rate": 10**9}, NullSink()) for _ in range(2)]
    thresholds = gc.get_threshold()
    longest_ms, began_ns = [0.0, 0.0, 0.0], 0

    def timed(phase: str, info: dict[str, int]) -> None:
        nonlocal began_ns
        if phase == "start":
            began_ns = time.thread_time_ns()
        else:
            taken_ms = (time.thread_time_ns() - began_ns) / 1e6
            longest_ms[info["generation"]] = max(longest_ms[info["generation"]], taken_ms)

    collecting.begin()
    gc.callbacks.append(timed)
    try:
        for cache in caches:
            for number in range(10_000 // scale):
                cache.get(f"topic-{number}", False, NOW_NS)
        coming_ms = max(longest_ms)
        gc.collect()
    finally:
        gc.callbacks.remove(timed)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    return {"gc_while_topics_come_ms": coming_ms, "gc_of_20k_topics_ms": longest_ms[2]}


# -- Pulsar ---------------------------------------------------------------------------------------


def _pulsar_sends(scale: int) -> list[float]:
    timed = pulsar_session({"max_publish_rate": 10**9})
    one = pulsar_bytes.send(0)
    timed.client(one * (_READ // len(one) // scale))
    return timed.slices_ms


def _pulsar_batch(scale: int) -> list[float]:
    timed = pulsar_session({"max_message_size": 1_000})
    single = pb.SingleMessageMetadata(payload_size=1).SerializeToString()
    count = 100_000 // scale
    timed.client(
        pulsar_bytes.send(
            0, (struct.pack(">I", len(single)) + single + b"x") * count, num_messages_in_batch=count
        )
    )
    return timed.slices_ms


def _pulsar_queue(scale: int) -> list[float]:
    count = 20_000 // scale
    timed = pulsar_session({"max_publish_rate": count})
    frames = [pulsar_bytes.send(number) for number in range(2 * count)]
    for start in range(0, len(frames), 500):
        timed.client(b"".join(frames[start : start + 500]), goes_on=False)
    timed.forget()
    timed.later(2)
    timed.go_on()
    return timed.slices_ms


def _subscribe(timed: Timed) -> None:
    timed.client(
        pulsar_bytes.command(
            "subscribe", topic=PULSAR_TOPIC, subscription="s", consumer_id=0, request_id=2, sub_type=1
        )
    )
    timed.broker(pulsar_bytes.command("success", request_id=2))


def _pulsar_ack(scale: int) -> list[float]:
    timed = pulsar_session({"max_unacked_messages_per_consumer": 10**6})
    _subscribe(timed)
    timed.forget()
    ids = [{"ledger_id": 1, "entry_id": number} for number in range(40_000 // scale)]
    timed.client(pulsar_bytes.command("ack", consumer_id=0, ack_type=0, message_id=ids))
    return timed.slices_ms


def _pulsar_messages(scale: int) -> list[float]:
    """A read full of the smallest messages of a broker."""
    timed = pulsar_session({"max_dispatch_rate": 10**9, "max_unacked_messages_per_consumer": 10**6})
    _subscribe(timed)
    timed.client(pulsar_bytes.command("flow", consumer_id=0, message_permits=10_000))
    timed.forget()
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1).SerializeToString()
    ids = [{"ledger_id": 1, "entry_id": number} for number in range(6_000 // scale)]
    sent = [
        pb.BaseCommand(type=_TYPES.MESSAGE, message={"consumer_id": 0, "message_id": each}) for each in ids
    ]
    timed.broker(b"".join(payload_frame(each, metadata, b"x") for each in sent)[:_READ])
    return timed.slices_ms


def _pulsar_properties(scale: int) -> list[float]:
    """A producer with as many properties as a command holds, and one with as many as are let through."""
    timed = pulsar_session({})
    for count in (1_900, 170_000 // scale):
        properties = [pb.KeyValue(key="", value="")] * count
        timed.client(
            pulsar_bytes.command(
                "producer", topic=PULSAR_TOPIC, producer_id=1, request_id=3, metadata=properties
            )
        )
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
    times: list[float] = []
    while True:
        began = time.thread_time_ns()
        is_over = next(slices, _OVER) is _OVER
        times.append((time.thread_time_ns() - began) / 1e6)
        if is_over:
            return times


_CASES: Mapping[str, Callable[[int], list[float]]] = {
    **long_kafka.CASES,
    **long_http2.CASES,
    "pulsar_small_sends": _pulsar_sends,
    "pulsar_batch_100k": _pulsar_batch,
    "pulsar_queue_20k": _pulsar_queue,
    "pulsar_ack_40k": _pulsar_ack,
    "pulsar_small_messages": _pulsar_messages,
    "pulsar_properties": _pulsar_properties,
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
