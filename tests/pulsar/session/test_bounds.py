"""What one client can make the gateway keep is bounded: large commands, and requests without a response."""

import struct
import tracemalloc

import pytest
from tests.pulsar.session.deliveries import subscribe
from tests.pulsar.session.messages import frame, producer, producer_success, send
from tests.pulsar.session.wire import Bench, Wire

from sluicegate.broker import PauseReading, ResumeReading
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.session.shared.subscriptions import ListSubscriptions

MIB = 1024 * 1024
TOPIC = "persistent://public/default/t"
KEEP_ALIVE = pb.BaseCommand.Type.PING


def begun(total: int, command: int, kind: int) -> bytes:
    """The start of a frame that says how long it and its command are."""
    return struct.pack(">IIBB", total, command, 8, kind)


@pytest.mark.parametrize(
    ("total", "command", "kind", "fits"),
    [
        (MIB, MIB - 4, KEEP_ALIVE, True),
        (MIB + 1, MIB - 3, KEEP_ALIVE, False),
        (90 * MIB, 10, KEEP_ALIVE, False),
        (90 * MIB, 50, pb.BaseCommand.Type.SEND, True),
        (90 * MIB, 2 * MIB, pb.BaseCommand.Type.SEND, False),
        (2**32 - 1, 50, pb.BaseCommand.Type.SEND, False),
    ],
)
def test_only_messages_may_be_large_frames(total: int, command: int, kind: int, fits: bool) -> None:
    wire = Wire(Bench())
    wire.client_sends(begun(total, command, kind))
    assert (wire.closed is None) == fits
    assert wire.session.held_bytes <= 10


def test_the_log_names_the_setting_to_raise() -> None:
    wire = Wire(Bench(), max_command_bytes="100B")
    wire.client_sends(producer(topic=TOPIC + "t" * 200))
    assert wire.closed is not None
    assert "100 are the most without a message; raise max_command_bytes" in wire.closed.detail


def test_a_large_schema_fits_a_raised_limit() -> None:
    wire = Wire(Bench(), max_command_bytes="4MiB")
    wire.client_sends(begun(3 * MIB, 3 * MIB - 4, pb.BaseCommand.Type.PRODUCER))
    assert wire.closed is None


def test_requests_wait_while_too_many_are_pending() -> None:
    wire = Wire(Bench(), max_requests_in_flight=10)
    paused = []
    wire.client_sends(*(producer(producer_id=number, request_id=number) for number in range(25)))
    assert [command.producer.request_id for command in wire.forwarded()] == list(range(10))
    wire.take_turns()
    paused.append(wire.is_paused)
    for number in range(4):
        wire.broker_sends(producer_success(number, f"p-{number}"))
    assert wire.forwarded() == []
    wire.broker_sends(producer_success(4, "p-4"))
    wire.take_turns()
    assert [command.producer.request_id for command in wire.forwarded()] == list(range(10, 15))
    for number in range(5, 25):
        wire.broker_sends(producer_success(number, f"p-{number}"))
        wire.take_turns()
    assert [command.producer.request_id for command in wire.forwarded()] == list(range(15, 25))
    answered = [command.producer_success.request_id for command in wire.answered()]
    assert answered == list(range(25))
    paused.append(wire.is_paused)
    assert paused == [True, False]
    said = [type(command) for command in wire.commands if isinstance(command, PauseReading | ResumeReading)]
    assert said.count(PauseReading) == said.count(ResumeReading)
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)


@pytest.mark.parametrize("closed", ["producer", "consumer"])
def test_a_request_to_attach_that_its_client_closes_is_no_longer_awaited(closed: str) -> None:
    """Brokers answer the close alone if it comes before the producer or consumer is there."""
    wire = Wire(Bench(), max_requests_in_flight=10)
    for number in range(40):
        ids = {f"{closed}_id": number, "request_id": 2 * number}
        wire.client_sends(
            producer(number, 2 * number) if closed == "producer" else subscribe(number, 2 * number),
            frame(f"close_{closed}", **{**ids, "request_id": 2 * number + 1}),
        )
        wire.take_turns()
        assert wire.session.connection.requests.are_under_way
        wire.broker_sends(frame("success", request_id=2 * number + 1))
        assert not wire.session.connection.requests.are_under_way
    assert not wire.is_paused
    assert len(wire.forwarded()) == 80


@pytest.mark.parametrize("closed", ["producer", "consumer"])
def test_what_the_broker_opens_after_its_close_ends_the_connection(closed: str) -> None:
    """It checks the client's rights before it knows what to close; what it opens then passes no policy."""
    wire = Wire(Bench(max_dispatch_rate=1, max_publish_rate=1))
    wire.client_sends(
        producer(0, 1) if closed == "producer" else subscribe(0, 1),
        frame(f"close_{closed}", **{f"{closed}_id": 0, "request_id": 2}),
    )
    wire.broker_sends(frame("success", request_id=2))
    before = wire.closed
    wire.broker_sends(producer_success(1) if closed == "producer" else frame("success", request_id=1))
    assert before is None
    assert wire.closed is not None
    assert wire.closed.counter == "attached_after_close"


@pytest.mark.parametrize("closed", ["producer", "consumer"])
def test_what_the_broker_refuses_after_its_close_changes_nothing(closed: str) -> None:
    wire = Wire(Bench({"on_unknown.max_subscriptions_per_topic": "last"}, max_subscriptions_per_topic=1))
    named = {"initial_subscription_name": "sub"} if closed == "producer" else {}
    asked = producer(0, 1, TOPIC, **named) if closed == "producer" else subscribe(0, 1, TOPIC)
    wire.client_sends(asked)
    wire.front_answers(ListSubscriptions(TOPIC))
    wire.client_sends(frame(f"close_{closed}", **{f"{closed}_id": 0, "request_id": 2}))
    wire.broker_sends(frame("success", request_id=2))
    state = wire.shared.gates.states[TOPIC]
    assert state.subscription_count == 1  # the broker may have it
    wire.broker_sends(frame("error", request_id=1, error=pb.AUTHORIZATION_ERROR, message="no"))
    assert wire.closed is None
    assert state.subscription_count == 0


def test_a_close_leaves_a_later_request_with_the_same_id() -> None:
    wire = Wire(Bench())
    wire.client_sends(producer(0, 7), frame("close_producer", producer_id=0, request_id=8))
    wire.broker_sends(producer_success(7))
    wire.client_sends(producer(1, 7))
    wire.broker_sends(frame("success", request_id=8))
    assert wire.session.connection.requests.are_under_way
    wire.broker_sends(producer_success(7))
    assert not wire.session.connection.requests.are_under_way


def test_producers_that_wait_for_exclusive_access_do_not_stop_the_others() -> None:
    wire = Wire(Bench(), max_requests_in_flight=10)
    for number in range(20):
        wire.client_sends(producer(number, number, producer_access_mode=pb.Producer.WAIT_FOR_EXCLUSIVE))
        wire.take_turns()
        wire.broker_sends(producer_success(number, producer_ready=False))
    assert len(wire.forwarded()) == 20
    assert not wire.is_paused
    wire.client_sends(producer(30, 19))
    assert wire.closed is not None, "an id that is still awaited"


def test_reading_goes_on_once_enough_producers_wait_for_exclusive_access() -> None:
    wire = Wire(Bench(), max_requests_in_flight=10)
    several = [producer(n, n, producer_access_mode=pb.Producer.WAIT_FOR_EXCLUSIVE) for n in range(12)]
    wire.client_sends(*several)
    wire.take_turns()
    assert len(wire.forwarded()) == 10
    for number in range(5):
        wire.broker_sends(producer_success(number, producer_ready=False))
    wire.take_turns()
    assert len(wire.forwarded()) == 2


def test_a_producer_that_waits_for_exclusive_access_keeps_its_request() -> None:
    bench = Bench()
    wire = Wire(bench)
    wire.client_sends(producer(0, 1, producer_access_mode=pb.Producer.WAIT_FOR_EXCLUSIVE))
    wire.broker_sends(producer_success(1, producer_ready=False))
    wire.broker_sends(frame("error", request_id=1, error=pb.PRODUCER_FENCED, message="gone"))
    assert wire.session.producing.closes() == []
    assert wire.session.held_bytes == 0


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_a_schema_is_not_kept_until_the_broker_responds(kind: str) -> None:
    wire = Wire(Bench())
    schema = {"name": "s", "schema_data": bytes(500_000), "type": 0}
    tracemalloc.start()
    for number in range(20):
        ids = (number, number)
        wire.client_sends(
            producer(*ids, schema=schema, producer_access_mode=pb.Producer.WAIT_FOR_EXCLUSIVE)
            if kind == "producer"
            else subscribe(*ids, schema=schema)
        )
        wire.take_turns()
        if kind == "producer":
            wire.broker_sends(producer_success(number, producer_ready=False))
        assert len(wire.sent_up()) == 1
        wire.forget()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 2 * MIB


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_requests_that_are_held_count_with_the_memory_that_they_take(kind: str) -> None:
    wire = Wire(Bench(connection_rate_limit=1))
    wire.client_sends(
        *[producer(each, each) if kind == "producer" else subscribe(each, each) for each in range(9)]
    )
    assert len(wire.sent_up()) == 1
    assert wire.shared.budget.used >= 8 * 2_500
    wire.wait(9)
    assert len(wire.sent_up()) == 8
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def test_pending_requests_count_as_memory() -> None:
    wire = Wire(Bench())
    wire.client_sends(*(producer(producer_id=number, request_id=number) for number in range(500)))
    wire.take_turns()
    assert wire.session.held_bytes > 400_000


def test_the_start_time_of_a_partial_frame_is_known() -> None:
    wire = Wire(Bench())
    assert wire.session.frame_began_ns == 0
    whole = send(1, b"x" * 100)
    wire.client_sends(whole[:50])
    began_ns = wire.now
    wire.now += 1
    wire.client_sends(whole[50:60])
    assert wire.session.frame_began_ns == began_ns


def test_a_client_is_logged_in_once_the_broker_accepts_it() -> None:
    assert not Wire(Bench(), is_open=False).session.is_logged_in
    assert Wire(Bench()).session.is_logged_in
