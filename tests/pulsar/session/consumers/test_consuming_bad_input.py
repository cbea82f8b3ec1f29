"""Damaged bytes of either side end one connection or pass; they raise nothing and leave nothing behind."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.session.deliveries import (
    EXCLUSIVE,
    ack,
    attach,
    failure,
    flow,
    message,
    subscribe,
    success,
)
from tests.pulsar.session.messages import TYPES, frame
from tests.pulsar.session.wire import Bench, Wire

PLACE = {"ledger_id": 7, "entry_id": 1}
UP = (
    subscribe(1, 2),
    subscribe(2, 3, subscription="other", kind=EXCLUSIVE, durable=False),
    flow(10),
    ack(1),
    ack(1, 2, left=(5,)),
    ack(2, cumulative=True),
    frame("redeliver_unacknowledged_messages", consumer_id=0, message_ids=[PLACE]),
    frame("redeliver_unacknowledged_messages", consumer_id=0),
    frame("seek", consumer_id=0, request_id=4, message_id=PLACE),
    frame("unsubscribe", consumer_id=0, request_id=5),
    frame("close_consumer", consumer_id=0, request_id=6),
)
DOWN = (
    success(2),
    failure(3),
    success(4),
    success(5),
    success(6),
    message(1),
    message(2, num_messages_in_batch=9, command={"ack_set": [3]}),
    message(3, publish_time=2**63, broker_ms=5),
    message(3, consumer_id=1),
    frame("active_consumer_change", consumer_id=0, is_active=False),
    frame("reached_end_of_topic", consumer_id=0),
    frame("close_consumer", consumer_id=0, request_id=2**64 - 1),
)


@st.composite
def _damaged(draw: st.DrawFn, frames: tuple[bytes, ...]) -> bytes:
    """A frame, at times with some bytes changed behind its size."""
    data = bytearray(draw(st.sampled_from(frames)))
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        data[draw(st.integers(4, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("up"), _damaged(UP)),
        st.tuples(st.just("down"), _damaged(DOWN)),
        st.tuples(st.just("wait"), st.just(b"")),
    ),
    max_size=30,
)
POLICIES: dict[str, int | float] = {
    "max_dispatch_rate": 2,
    "max_unacked_messages_per_consumer": 5,
    "fixed_delivery_delay": 500,
    "max_consumers_per_topic": 2,
    "connection_rate_limit": 1,
}


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from([EXCLUSIVE, 1]))
def test_damaged_frames_raise_nothing_and_leave_nothing_behind(
    steps: list[tuple[str, bytes]], kind: int
) -> None:
    bench = Bench(**POLICIES)
    wire = Wire(bench)
    attach(wire, kind=kind)
    for what, data in steps:
        if wire.closed is not None:
            break
        if what == "up":
            wire.client_sends(data)
        elif what == "down":
            wire.broker_sends(data)
        else:
            wire.wait(0.7)
    wire.close()
    assert (bench.budget.used, wire.session.held_bytes) == (0, 0)
    assert [state.consumer_count for state in wire.shared.gates.states.values() if state.consumer_count] == []


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_ids_of_any_size_are_accepted(number: int) -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire, number, number)
    wire.broker_sends(message(1, consumer_id=number), message(2, consumer_id=number))
    assert len(wire.sent_down()) == 1
    wire.wait(1.1)
    assert len(wire.sent_down()) == 1


def test_times_of_any_size_are_accepted() -> None:
    wire = Wire(Bench(fixed_delivery_delay=1000))
    attach(wire, kind=EXCLUSIVE)
    wire.broker_sends(
        message(1, publish_time=2**64 - 1, deliver_at_time=-(2**63)),
        message(2, publish_time=0, deliver_at_time=2**63 - 1, broker_ms=2**64 - 1),
    )
    assert wire.sent_down() == []
    wire.wait(1.1)
    assert len(wire.sent_down()) == 2


@pytest.mark.parametrize("asked", ["subscribe", "unsubscribe"])
def test_a_request_id_used_twice_does_not_hide_a_consumer(asked: str) -> None:
    """Two requests of one id could make the gateway release a consumer that the broker still has."""
    wire = Wire(Bench(fixed_delivery_delay=30_000))
    unseen = frame("get_last_message_id", consumer_id=9, request_id=2)
    if asked == "subscribe":
        wire.client_sends(unseen, subscribe(0, 2, kind=EXCLUSIVE))
        wire.broker_sends(failure(2), success(2))
    else:
        attach(wire, 0, 1, kind=EXCLUSIVE)
        wire.client_sends(unseen, frame("unsubscribe", consumer_id=0, request_id=2))
        wire.broker_sends(success(2), failure(2))
    close = wire.forwarded()[-1]
    assert (close.type, close.close_consumer.consumer_id) == (TYPES.CLOSE_CONSUMER, 0)
    wire.answered()

    wire.client_sends(flow(10))
    wire.sent_up()
    wire.broker_sends(message(1))
    assert wire.answered() == []  # the broker had yet to close it
    wire.broker_sends(success(close.close_consumer.request_id))
    assert wire.answered() == []
    attach(wire, 0, 3, kind=EXCLUSIVE)
