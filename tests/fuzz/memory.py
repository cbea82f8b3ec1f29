"""What the product keeps in memory, beside what it says that it holds."""

import gc
import tracemalloc
from pathlib import Path

from tests.fuzz.epoch import Epoch, MakeFront
from tests.fuzz.link import FoundError, Meter

import sluicegate
import sluicegate_danube
import sluicegate_grpc
import sluicegate_kafka
import sluicegate_pulsar

_PER_CONNECTION = 48 * 1024
_PER_TOPIC = 16 * 1024
_IN_ANY_CASE = 1024 * 1024
_PER_HELD_BYTE = 2
_PACKAGES = (sluicegate, sluicegate_danube, sluicegate_grpc, sluicegate_kafka, sluicegate_pulsar)
_PRODUCT = [tracemalloc.Filter(True, f"{Path(str(each.__file__)).parent}/*") for each in _PACKAGES]


def kept_by_product() -> int:
    """Bytes that the product's own lines have allocated since tracing began, and that are still there."""
    gc.collect()
    found = tracemalloc.take_snapshot().filter_traces(_PRODUCT)
    return sum(trace.size for trace in found.traces)


def check_memory(make_front: MakeFront, seed: str, frames: int) -> tuple[int, int]:
    """Play an epoch again, and compare what is kept at its end with what is said to be held.

    :return: bytes kept, and bytes that the connections that are still open had received.
    :raises FoundError: if more is kept than connections, topics and held bytes account for.
    """
    seen = (0, 0)

    def at_rest(epoch: Epoch) -> None:
        nonlocal seen
        links = [link for link in epoch.links if not link.is_closed]
        kept, held = kept_by_product(), sum(link.session.held_bytes for link in links)
        seen = kept, sum(link.received for link in links)
        topics = len(epoch.front.bench.gates.states)
        allowed = _IN_ANY_CASE + _PER_CONNECTION * len(links) + _PER_TOPIC * topics + _PER_HELD_BYTE * held
        if kept > allowed:
            raise FoundError(
                f"{kept} bytes are kept for {len(links)} connections, {topics} topics and {held} held bytes"
            )

    tracemalloc.start()
    try:
        Epoch(make_front, seed, frames, Meter()).play(at_rest)
    finally:
        tracemalloc.stop()
    return seen
