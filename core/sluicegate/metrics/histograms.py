"""Histograms of sizes and of hold times, out of the workers' snapshots."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client.core import Metric

from sluicegate.engine.held import BOUNDS_NS
from sluicegate.engine.state import COUNTERS
from sluicegate.metrics.families import counter, histogram

_SIZE_BITS = (6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26)
"""Histogram bounds: 63 bytes, 255, 1023, ... 64 MiB - 1; sizes are counted by bit length."""
_ALONE_BYTES, _BATCHED, _BATCHED_BYTES = (
    COUNTERS.index(name) for name in ("alone_bytes", "batched_messages", "batched_bytes")
)


def size_histograms(snapshots: Sequence[Mapping[str, Any]]) -> Iterable[Metric]:
    """Sizes of messages published alone, sizes of batches, and the number of messages in batches."""
    alone = histogram(
        "message_size_bytes",
        "Size of each message that was published alone; of others the gateway does not know it.",
        "topic_name",
    )
    batches = histogram(
        "sluicegate_batch_size_bytes", "Bytes of each publish of several messages.", "topic_name"
    )
    batched = counter(
        "sluicegate_batched_messages",
        "Messages published in batches: each one's size is not known.",
        "topic_name",
    )
    for snapshot in snapshots:
        for topic, sample in snapshot["topics"].items():
            key, counters = [topic, snapshot["broker"]], sample["counters"]
            alone.add_metric(key, _size_buckets(sample["sizes"]), counters[_ALONE_BYTES])
            batches.add_metric(key, _size_buckets(sample["batches"]), counters[_BATCHED_BYTES])
            batched.add_metric(key, counters[_BATCHED])
    return (alone, batches, batched)


def hold_histogram(snapshots: Sequence[Mapping[str, Any]]) -> Metric:
    """How long operations were held, by topic and operation."""
    family = histogram(
        "sluicegate_hold_duration_seconds",
        "How long each held operation was held, until it went on, was refused or lost its client.",
        "topic_name operation",
    )
    for snapshot in snapshots:
        for topic, sample in snapshot["topics"].items():
            for operation, (*counts, total_ns) in sample["holds"].items():
                key = [topic, operation, snapshot["broker"]]
                family.add_metric(key, _hold_buckets(counts), total_ns / 1e9)
    return family


def _size_buckets(sizes: Sequence[int]) -> list[tuple[str, float]]:
    buckets = [(f"{2**bits - 1}.0", float(sum(sizes[: bits + 1]))) for bits in _SIZE_BITS]
    return [*buckets, ("+Inf", float(sum(sizes)))]


def _hold_buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    buckets = [
        (str(bound_ns / 1e9), float(sum(counts[: slot + 1]))) for slot, bound_ns in enumerate(BOUNDS_NS)
    ]
    return [*buckets, ("+Inf", float(sum(counts)))]
