"""A large request that is decided by its start has the results of one that is read whole."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kafka.session.messages import batch, produce, produced, publish
from tests.kafka.session.wire import SECOND, Bench, Wire

from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.produce_requests import scan_produce, scan_start
from sluicegate_kafka.session.producing.foretelling import LARGE, START_BYTES, Foretelling

LIMITS: dict[str, int] = {
    "max_publish_rate_bytes": 150_000,
    "max_publish_rate": 50,
    "max_message_size": 80_000,
}

requests = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["t", "t", "t", "u"]),
        "sizes": st.sampled_from([[10], [70_000], [70_000], [40_000, 40_000], [85_000], [9_000] * 10]),
        "producer_id": st.sampled_from([-1, -1, 7]),
        "client_id": st.sampled_from(["app", "app", "app", "other"]),
        "acks": st.sampled_from([-1, -1, 1, 0]),
        "spoil": st.sampled_from([None] * 8 + ["tail", "magic"]),
        "cuts": st.lists(st.integers(1, 1_500) | st.integers(1, 90_000), max_size=4),
        "pause": st.sampled_from([0.0, 0.01, 3.0]),
    }
)


def read_whole(wire: Wire) -> Wire:
    """The same session where every request is needed whole."""

    class Never(Foretelling):
        __slots__ = ()

        def passes(self, *_: object) -> None:
            """Have none pass by its start."""

    wire.session.producing.foretelling.__class__ = Never
    return wire


def moved(wire: Wire, data: bytes) -> bytes:
    """Have the kernel move what may pass unread, and return the rest."""
    while data and (count := min(wire.session.unread_request_bytes, len(data))):
        wire.upstream += data[:count]
        wire.carry_out(wire.session.request_passed(count, wire.now))
        data = data[count:]
    return data


def cut(frame: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(frame[at : at + size])
        at += size
    return [piece for piece in (*pieces, frame[at:]) if piece]


def spoiled(frame: bytes, how: str | None) -> bytes:
    changed = bytearray(frame)
    if how == "magic":
        changed[frame.index(b"\xff\xff\xff\xff\x02" if b"\xff\xff\xff\xff\x02" in frame else b"\x02")] ^= 1
    elif how == "tail":
        changed[:4] = (len(changed) - 4 + 2).to_bytes(4, "big")
        changed += b"\0\0"
    return bytes(changed)


def counted(wire: Wire) -> list[object]:
    names = (
        "allowed_messages",
        "allowed_bytes",
        "rejected",
        "delayed",
        "dropped",
        "size_counts",
        "batch_counts",
    )
    states = [wire.shared.gate(topic, False, wire.now).state for topic in ("t", "u")]
    return [[getattr(state, name) for name in names] + [len(state.producers)] for state in states]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([LIMITS, {}]), st.lists(requests, min_size=2, max_size=8), st.booleans())
def test_requests_decided_by_their_start_and_read_whole_end_alike(
    policies: dict[str, int], script: list[dict[str, Any]], by_kernel: bool
) -> None:
    early, whole = Wire(Bench(policies)), read_whole(Wire(Bench(policies)))
    for number, one in enumerate(script):
        records = batch(
            *(b"x" * size for size in one["sizes"]), producer_id=one["producer_id"], sequence=number
        )
        frame = produce(
            {one["topic"]: records}, correlation_id=number, acks=one["acks"], client_id=one["client_id"]
        )
        for wire in (early, whole):
            for piece in cut(spoiled(frame, one["spoil"]), one["cuts"]):
                if rest := moved(wire, piece) if by_kernel and wire is early else piece:
                    wire.client_sends(rest)
            wire.take_turns()
            wire.wait(one["pause"])
            wire.take_turns()
        if early.closed is not None or whole.closed is not None:
            break
    assert early.upstream == whole.upstream
    assert early.downstream == whole.downstream
    assert (early.closed is None) == (whole.closed is None)
    assert len(early.session.connection.outstanding) == len(whole.session.connection.outstanding)
    assert counted(early) == counted(whole)


@pytest.mark.parametrize("version", [7, 9, 12])
def test_a_request_passes_from_where_its_batch_is_known(version: int) -> None:
    wire = Wire(Bench(max_publish_rate_bytes=10**9))
    frame = bytearray(produce({"t": batch(b"x" * 100_000)}))
    if version > 8:
        frame[6:8] = version.to_bytes(2, "big")
    else:
        frame = bytearray(legacy(version, batch(b"x" * 100_000)))
    wire.client_sends(bytes(frame))
    wire.take_turns()
    assert wire.upstream == frame
    wire.upstream = b""
    wire.client_sends(bytes(frame[:70]))
    assert wire.upstream == b""
    wire.client_sends(bytes(frame[70:START_BYTES]))
    assert wire.upstream == frame[:START_BYTES]
    assert wire.session.unread_request_bytes == len(frame) - START_BYTES
    assert wire.session.held_bytes == 0
    assert wire.session.frame_began_ns == wire.now
    wire.carry_out(wire.session.request_passed(50_000, wire.now))
    assert wire.session.unread_request_bytes == len(frame) - START_BYTES - 50_000
    small = produce({"t": batch(b"y")}, correlation_id=2)
    wire.client_sends(bytes(frame[START_BYTES + 50_000 :]) + small)
    assert wire.upstream == frame[:START_BYTES] + frame[START_BYTES + 50_000 :] + small


def legacy(version: int, records: bytes) -> bytes:
    """A request of a version without compact types."""
    body = b"".join(
        (
            b"\0\0" + version.to_bytes(2, "big") + (1).to_bytes(4, "big") + b"\0\3app",
            b"\xff\xff" + b"\xff\xff" + (30_000).to_bytes(4, "big"),
            (1).to_bytes(4, "big") + b"\0\1t" + (1).to_bytes(4, "big"),
            (0).to_bytes(4, "big") + len(records).to_bytes(4, "big") + records,
        )
    )
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("legacy_version", [None, 7])
def test_the_start_tells_what_the_whole_tells(legacy_version: int | None) -> None:
    records = batch(b"x" * 80_000, b"y", producer_id=7)
    frame = produce({"topic": records}) if legacy_version is None else legacy(legacy_version, records)
    whole = scan_produce(frame, parse_request_head(frame, 4))
    head = parse_request_head(frame, 4, len(frame))
    begin = whole.topics[0].records[0][0]
    for end in range(16, begin + 61):
        assert scan_start(frame[:end], head) is None
    told = scan_start(frame[: begin + 61], head)
    assert told is not None
    assert told._replace(frame=b"", topics=[told.topics[0]._replace(frame=b"")]) == whole._replace(
        frame=b"", topics=[whole.topics[0]._replace(frame=b"")]
    )


def test_a_request_for_two_partitions_is_read_whole() -> None:
    wire = Wire(Bench())
    frame = produce({"t": {0: batch(b"x" * LARGE), 1: batch(b"y" * LARGE)}})
    for _ in range(2):
        wire.upstream = b""
        wire.client_sends(frame[:-1])
        assert wire.upstream == b""
        wire.client_sends(frame[-1:])
        wire.take_turns()
        assert wire.upstream == frame


def test_a_refused_request_is_refused_once_and_none_of_it_forwarded() -> None:
    wire = Wire(Bench({"max_publish_rate_bytes": 100_000, "on_limit.max_publish_rate_bytes": "reject"}))
    publish(wire, {"t": batch(b"first")})
    large = batch(b"x" * 90_000)
    frame = produce({"t": large}, correlation_id=5)
    wire.client_sends(frame, piece=20_000)
    wire.take_turns()
    assert wire.forwarded() == [frame[4:]]
    wire.broker_sends(produced("t", correlation_id=5))
    wire.answered()
    wire.client_sends(frame[:50_000])
    state = wire.shared.gate("t", False, wire.now).state
    assert state.rejected == 1
    wire.client_sends(frame[50_000:])
    wire.take_turns()
    assert wire.upstream == b""
    assert len(wire.answered()) == 1
    assert state.rejected == 1


def test_a_gateway_that_ends_does_not_wait_for_the_rest_of_a_request() -> None:
    wire = Wire(Bench())
    publish(wire, {"t": batch(b"first")})
    frame = produce({"t": batch(b"x" * 100_000)})
    wire.client_sends(frame[:50_000])
    assert wire.session.unread_request_bytes > 0
    wire.carry_out(wire.session.ending(wire.now))
    assert wire.closed is not None


def test_a_connection_that_ends_in_the_middle_of_a_held_request_leaves_the_queue() -> None:
    bench = Bench(max_publish_rate_bytes=100_000)
    wire = Wire(bench)
    publish(wire, {"t": batch(b"first")})
    frame = produce({"t": batch(b"x" * 90_000)})
    wire.client_sends(frame)
    wire.take_turns()
    wire.client_sends(frame[:50_000])
    assert wire.shared.gate("t", False, wire.now).state.delayed == 1
    wire.close()
    other = Wire(bench, wire.shared)
    other.now = wire.now + SECOND
    assert publish(other, {"t": batch(b"later")})["t", 0][0] == 0
