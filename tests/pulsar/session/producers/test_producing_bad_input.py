"""Frames that no client should send: that client hears of it, and others are served."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.session.messages import TYPES, frame, producer, producer_success, send
from tests.pulsar.session.wire import Bench, Wire

GOOD = send(0, b"payload")
_COMMAND_END = 8 + int.from_bytes(GOOD[4:8], "big")


def opened(bench: Bench, **options: object) -> Wire:
    """A connection with one producer."""
    wire = Wire(bench, **options)  # type: ignore[arg-type]
    wire.client_sends(producer())
    wire.broker_sends(producer_success())
    wire.sent_up()
    return wire


def sized(rest: bytes) -> bytes:
    """A frame of these bytes behind its size."""
    return struct.pack(">I", len(rest)) + rest


@pytest.mark.parametrize(
    "bad",
    [
        GOOD[:_COMMAND_END] + b"\x0e\x07" + GOOD[_COMMAND_END + 2 :],
        sized(GOOD[4:_COMMAND_END]),
        sized(GOOD[4:_COMMAND_END] + b"\x0e\x01\0\0"),
        GOOD[: _COMMAND_END + 6] + b"\x7f\xff\xff\xff" + GOOD[_COMMAND_END + 10 :],
        GOOD[:4] + b"\x7f\xff\xff\xff" + GOOD[8:],
        b"\x7f\xff\xff\xff" + GOOD[4:],
        send(0, command={"num_messages": -1}),
        sized(struct.pack(">I", 3) + b"\x08\x06\x32"),
    ],
    ids=[
        "a wrong magic",
        "no metadata",
        "half a checksum",
        "metadata past the end",
        "a command past the end",
        "a frame above the limit",
        "less than no messages",
        "half a command",
    ],
)
def test_malformed_input_ends_the_connection(bad: bytes) -> None:
    bench = Bench(max_publish_rate=1_000)
    wire, other = opened(bench), opened(bench, peer="10.0.0.9:9")
    wire.client_sends(send(7), bad, send(8))
    assert wire.sent_up() == [send(7)]
    assert wire.closed is not None
    assert wire.closed.counter == "malformed_frame"
    assert wire.session.client in wire.closed.detail
    other.client_sends(send(1))
    assert other.sent_up() == [send(1)]


@pytest.mark.parametrize("command", ["producer", "close_producer", "end_txn"])
def test_commands_without_required_fields(command: str) -> None:
    wire = opened(Bench({"on_limit.max_publish_rate": "delay"}, max_publish_rate=1))
    txn = {"txnid_least_bits": 1, "txnid_most_bits": 1}
    wire.client_sends(send(0), send(1, command=txn))
    kind = frame(command, **_least(command))[8:10]
    wire.client_sends(sized(struct.pack(">I", 2) + kind))
    assert wire.closed is not None
    assert wire.closed.counter == "malformed_frame"


def _least(command: str) -> dict[str, object]:
    if command == "producer":
        return {"topic": "t", "producer_id": 1, "request_id": 1}
    return {"request_id": 1} if command == "end_txn" else {"producer_id": 1, "request_id": 1}


@settings(deadline=None)
@given(st.data())
def test_damage_at_any_position_raises_nothing_and_leaves_nothing_behind(data: st.DataObject) -> None:
    bench = Bench(max_publish_rate=2, fixed_delivery_delay=1_000, max_message_size=6)
    wire = opened(bench)
    stream = bytearray(
        b"".join([send(0), send(1, b"x"), producer(1, 2), send(0, b"x", 1), frame("end_txn", request_id=3)])
    )
    for _ in range(data.draw(st.integers(1, 4))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    at = 0
    while at < len(stream) and wire.closed is None:
        size = data.draw(st.integers(1, len(stream)))
        wire.client_sends(bytes(stream[at : at + size]))
        at += size
    if wire.closed is None:
        wire.wait(3)
    wire.close()
    assert bench.budget.used == 0
    assert all(len(state.producers) == 0 for state in bench.gates.states.values())


def test_a_request_id_used_twice_does_not_hide_a_producer() -> None:
    """Two requests of one id could make the gateway release a producer that the broker still has."""
    wire = Wire(Bench(max_publish_rate=1_000))
    wire.client_sends(frame("get_last_message_id", consumer_id=9, request_id=5), producer(0, 5))
    wire.sent_up()
    wire.broker_sends(frame("error", request_id=5, error=13, message="no such consumer"), producer_success(5))
    assert len(wire.answered()) == 2
    [close] = wire.forwarded()
    assert (close.type, close.close_producer.producer_id) == (TYPES.CLOSE_PRODUCER, 0)

    # Without that the broker would answer to this that it has the producer, which is the first one.
    wire.client_sends(producer(0, 6, topic="other"))
    assert [each.type for each in wire.forwarded()] == [TYPES.PRODUCER]
    wire.broker_sends(frame("success", request_id=close.close_producer.request_id), producer_success(6))
    assert [each.type for each in wire.answered()] == [TYPES.PRODUCER_SUCCESS]
    wire.client_sends(send(0))
    assert wire.sent_up() == [send(0)]
