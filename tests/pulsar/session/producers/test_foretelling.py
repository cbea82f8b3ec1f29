"""A large message that is decided by its start has the results of one that is read whole."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.session.messages import TOPIC, producer, producer_success, receipt, send
from tests.pulsar.session.wire import SECOND, Bench, Wire

from sluicegate_pulsar.codec.sends import read_send, send_start
from sluicegate_pulsar.session.producers.foretelling import Foretelling

LIMITS: dict[str, int] = {
    "max_publish_rate_bytes": 150_000,
    "max_publish_rate": 50,
    "max_message_size": 80_000,
}

messages = st.fixed_dictionaries(
    {
        "size": st.sampled_from([10, 70_000, 70_000, 85_000, 66_000]),
        "batch": st.sampled_from([0, 0, 3]),
        "cuts": st.lists(st.integers(1, 200) | st.integers(1, 90_000), max_size=4),
        "pause": st.sampled_from([0.0, 0.01, 3.0]),
    }
)


def opened(bench: Bench) -> Wire:
    wire = Wire(bench)
    wire.client_sends(producer())
    wire.broker_sends(producer_success())
    wire.take_turns()
    wire.upstream = wire.downstream = b""
    return wire


def read_whole(wire: Wire) -> Wire:
    """The same session where every message is needed whole."""

    class Never(Foretelling):
        __slots__ = ()

        def __call__(self, *_: object) -> bool:
            """Have none pass by its start."""
            return False

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


def counted(wire: Wire) -> list[object]:
    state = wire.session._shared.gates.get(TOPIC, False, wire.now).state
    names = ("allowed_messages", "allowed_bytes", "rejected", "delayed", "dropped", "size_counts")
    return [getattr(state, name) for name in names]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([LIMITS, {}, {"on_limit.max_publish_rate_bytes": "reject", **LIMITS}]),
    st.lists(messages, min_size=2, max_size=8),
    st.booleans(),
)
def test_messages_decided_by_their_start_and_read_whole_end_alike(
    policies: dict[str, Any], script: list[dict[str, Any]], by_kernel: bool
) -> None:
    early, whole = opened(Bench(policies)), read_whole(opened(Bench(policies)))
    for number, one in enumerate(script):
        more = {"num_messages_in_batch": one["batch"]} if one["batch"] else {}
        frame = send(number, b"x" * one["size"], **more)
        for wire in (early, whole):
            for piece in cut(frame, one["cuts"]):
                if rest := moved(wire, piece) if by_kernel and wire is early else piece:
                    wire.client_sends(rest)
            wire.take_turns()
            wire.wait(one["pause"])
            wire.take_turns()
    assert early.upstream == whole.upstream
    assert early.downstream == whole.downstream
    assert (early.closed is None) == (whole.closed is None)
    assert counted(early) == counted(whole)


def test_the_start_tells_what_the_whole_tells() -> None:
    frame = send(5, b"x" * 80_000, num_messages_in_batch=3, command={"num_messages": 3})
    whole = read_send(frame, 0, len(frame))
    for end in range(8, whole.payload):
        assert send_start(frame[:end], 0, len(frame)) is None
    assert send_start(frame[: whole.payload], 0, len(frame)) == whole


def test_a_message_passes_from_where_its_metadata_is_known() -> None:
    wire = opened(Bench())
    frame = send(1, b"x" * 100_000)
    begin = read_send(frame, 0, len(frame)).payload
    wire.client_sends(frame[: begin - 1])
    assert wire.upstream == b""
    wire.client_sends(frame[begin - 1 : 5_000])
    assert wire.upstream == frame[:5_000]
    assert wire.session.unread_request_bytes == len(frame) - 5_000
    assert wire.session.held_bytes == 0
    assert wire.session.frame_began_ns == wire.now
    wire.carry_out(wire.session.request_passed(50_000, wire.now))
    small = send(2)
    wire.client_sends(frame[55_000:] + small)
    assert wire.upstream == frame[:5_000] + frame[55_000:] + small
    wire.broker_sends(receipt(1), receipt(2))
    assert wire.downstream == receipt(1) + receipt(2)


@pytest.mark.parametrize("by_kernel", [False, True])
def test_what_the_gateway_sends_itself_comes_behind_the_message(by_kernel: bool) -> None:
    wire = opened(Bench(max_publish_rate_bytes=100_000))
    held, frame = send(1, b"y" * 50, producer_id=1), send(1, b"x" * 90_000)
    wire.client_sends(producer(1, 2, TOPIC + "2"))
    wire.broker_sends(producer_success(2))
    wire.upstream = b""
    first = send(0, b"z" * 199_000, producer_id=1)
    wire.client_sends(first, held, frame[:5_000])
    wire.take_turns()
    assert wire.upstream == first + frame[:5_000]
    wire.wait(5)
    assert wire.upstream == first + frame[:5_000]
    if by_kernel:
        wire.carry_out(wire.session.request_passed(len(frame) - 5_000, wire.now))
        assert wire.upstream == first + frame[:5_000] + held
    else:
        wire.client_sends(frame[5_000:])
        assert wire.upstream == first + frame + held


def test_a_refused_message_is_refused_once_and_none_of_it_forwarded() -> None:
    wire = opened(Bench({"max_publish_rate_bytes": 100_000, "on_limit.max_publish_rate_bytes": "reject"}))
    frames = [send(number, b"x" * 90_000) for number in range(2)]
    wire.client_sends(frames[0], piece=20_000)
    assert wire.upstream == frames[0]
    wire.client_sends(frames[1][:50_000])
    state = wire.session._shared.gates.get(TOPIC, False, wire.now).state
    assert state.rejected == 1
    wire.client_sends(frames[1][50_000:])
    wire.take_turns()
    assert wire.upstream == frames[0]
    assert state.rejected == 1


def test_a_gateway_that_ends_does_not_wait_for_the_rest_of_a_message() -> None:
    wire = opened(Bench())
    wire.client_sends(send(1, b"x" * 100_000)[:50_000])
    wire.carry_out(wire.session.ending(wire.now))
    assert wire.closed is not None


def test_a_connection_that_ends_in_the_middle_of_a_held_message_leaves_the_queue() -> None:
    bench = Bench(max_publish_rate_bytes=100_000)
    wire, other = opened(bench), opened(bench)
    wire.client_sends(send(1, b"x" * 90_000), send(2, b"x" * 90_000)[:50_000])
    wire.close()
    other.now = wire.now + SECOND
    small = send(1)
    other.client_sends(small)
    assert other.upstream == small
