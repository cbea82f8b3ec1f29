"""Short runs of the session fuzzer, and what is announced is not kept."""

import logging
import tracemalloc
from collections import deque
from random import Random, SystemRandom

import pytest
from hpack import Decoder
from tests.bench import START
from tests.fuzz import bombs
from tests.fuzz.epoch import Epoch, Front
from tests.fuzz.link import Link, Meter
from tests.fuzz.memory import check_memory
from tests.fuzz.protocols import PROTOCOLS
from tests.kafka.session.messages import produce

from sluicegate_kafka.codec.compression import unpacked
from sluicegate_kafka.codec.record_walk import Slice, Walk
from sluicegate_kafka.codec.records import COMPRESSION_MASK, walk_batches

_FRAMES = 3_000
_MOST_KEPT = 1024 * 1024
_TWO_GIB = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f")
"""A length as four bytes, and as a varint of a signed and of an unsigned number."""
_OFFSETS = 70
_KINDS = 5


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Sessions warn of what they refuse."""
    caplog.set_level(logging.CRITICAL, logger="sluicegate")


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_damaged_sessions_raise_nothing_and_leave_nothing(protocol: str) -> None:
    seeds = ["1", "2", "3", "4", str(SystemRandom().randrange(2**32))]
    for seed in seeds:
        print(f"python -m tests.fuzz {protocol} --epoch {_FRAMES} --again {seed}")  # shown if it fails
        tally = Epoch(PROTOCOLS[protocol], seed, _FRAMES, Meter()).play()
        assert tally.frames >= _FRAMES


def test_an_epoch_is_the_same_each_time(protocol: str) -> None:
    meters = [Meter(), Meter()]
    tallies = [Epoch(PROTOCOLS[protocol], "same", 500, meter).play() for meter in meters]
    assert tallies[0] == tallies[1]
    assert meters[0].turns == meters[1].turns


def test_what_is_kept_is_accounted_for(protocol: str) -> None:
    check_memory(PROTOCOLS[protocol], "kept", 1_000)


def say(link: Link, frames: list[bytes], *, damaged: bool = False) -> None:
    """Have the client of a connection send frames in one read."""
    link.ends.client_sent(frames, damaged)
    link.client_sends(b"".join(frames), START)


def logged_in(front: Front, number: int) -> Link:
    """A connection that has begun."""
    link = Link(front.connect(number, START), Meter())
    for _ in range(3):
        say(link, link.ends.client_says())
        while link.go_on(START):
            pass
        link.broker_sends(b"".join(link.ends.broker_says()), START, unread=False)
    return link


def test_two_gib_announced_anywhere_in_a_frame_are_not_kept(protocol: str) -> None:
    front = PROTOCOLS[protocol](Random(1))
    front.bench.set(max_message_size=1_000_000, max_publish_rate=1_000_000, max_dispatch_rate=1_000_000)
    frames = {frame[:12]: frame for _ in range(8) for frame in logged_in(front, 0).ends.client_says()}
    for number, frame in enumerate([*frames.values()][:_KINDS]):
        for at in range(min(len(frame), _OFFSETS)):
            link = logged_in(front, number)
            large = _TWO_GIB[at % len(_TWO_GIB)]
            damaged = frame[:at] + large + frame[at + len(large) :]
            tracemalloc.start()
            try:
                say(link, [damaged], damaged=True)
                assert tracemalloc.get_traced_memory()[1] < _MOST_KEPT
            finally:
                tracemalloc.stop()
            assert link.session.held_bytes < _MOST_KEPT
            link.hang_up(START)


@pytest.mark.parametrize("packed", bombs.kafka_batches(), ids=lambda packed: f"{len(packed)}-bytes")
def test_a_batch_that_asks_for_much_work_is_whole(packed: bytes) -> None:
    """Else it would be refused before it is unpacked."""
    [header] = walk_batches(packed, 0, len(packed))
    records, codec = packed[bombs.FRAMED :], header.attributes & COMPRESSION_MASK
    if codec:
        records = b"".join(unpacked(codec, records, 1 << 20))
        assert len(records) > 20 * len(packed)
    walk = Walk(1 << 20, header.record_count, Slice())
    deque(walk.over(records, 0, len(records)), maxlen=0)
    assert walk.left == 0


def test_a_block_of_headers_that_asks_for_much_work_unpacks_to_much() -> None:
    block = bombs.header_block(b"")
    headers = Decoder(1 << 30).decode(block, raw=True)
    assert sum(len(value) for _, value in headers) > 500 * len(block)


def test_what_a_thread_does_for_a_request_is_measured() -> None:
    front = PROTOCOLS["kafka"](Random(1))
    front.bench.set(max_message_size=1_000, inspect=True)
    link = logged_in(front, 0)
    meter = link.meter
    packed = bombs.kafka_batch_for_a_thread()
    say(link, [produce({"a": packed})])
    while link.go_on(START):
        pass
    assert meter.thread_bytes == len(packed) - bombs.FRAMED
    assert meter.thread_ns > 0
