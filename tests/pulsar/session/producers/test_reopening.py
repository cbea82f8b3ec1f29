"""A producer that overflows its queue is closed alone, and reopened by its client."""

import tracemalloc
from collections.abc import Callable

import pytest
from tests.pulsar.session.messages import TYPES, frame, parse, producer, receipt, send
from tests.pulsar.session.producers.test_producing_rates import opened, sequences, slow_and_fast
from tests.pulsar.session.wire import Bench, Wire

from sluicegate.engine.factors import Factor
from sluicegate.testing import ManualContext
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.session.producer_state.publish_memory import FRAME_OVERHEAD

pytestmark = pytest.mark.seed("S1-005", "S1-061")

SLOW = "persistent://public/default/slow"
QUEUE = {"messages": 3}


def sent(count: int, first: int = 0) -> list[bytes]:
    return [send(number) for number in range(first, first + count)]


def acknowledge(wire: Wire, *numbers: int) -> None:
    wire.broker_sends(*[receipt(number) for number in numbers])


def closes(wire: Wire) -> list[int]:
    """Ids of the producers that the client was told to open again since the last call."""
    return [
        answer.close_producer.producer_id
        for answer in wire.answered()
        if answer.type == pb.BaseCommand.CLOSE_PRODUCER
    ]


def overflowing(bench: Bench, **options: object) -> Wire:
    """A connection with ten messages sent to a queue of three: one passed, three wait, six were discarded."""
    wire = opened(bench, "slow", "fast", publish_queue=QUEUE, **options)
    wire.client_sends(*sent(10))
    return wire


def closed(bench: Bench) -> Wire:
    """The same, once its client was told to reopen it."""
    wire = overflowing(bench)
    wire.wait(3.1)
    acknowledge(wire, 0, 1, 2, 3)
    wire.sent_up()
    assert closes(wire) == [0]
    return wire


@pytest.mark.parametrize("bound", [{"messages": 3}, {"bytes": 3 * (len(send(1)) + FRAME_OVERHEAD)}])
def test_a_full_queue_does_not_stop_other_producers(bound: dict[str, int]) -> None:
    wire = opened(slow_and_fast(), "slow", "fast", publish_queue=bound)
    ping = frame("ping")
    wire.client_sends(*sent(10), send(0, producer_id=1), ping)
    assert wire.sent_up() == [send(0), send(0, producer_id=1), ping]
    assert not wire.is_paused
    assert wire.shared.counts["publish_queue_full"] == 1
    assert wire.shared.counts["publish_discarded"] == 5


def test_the_producer_is_closed_after_all_receipts() -> None:
    bench = slow_and_fast()
    wire = overflowing(bench)
    wire.wait(3.1)
    assert sequences(wire) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    acknowledge(wire, 0, 1, 2)
    assert closes(wire) == []
    acknowledge(wire, 3)
    assert [answer.type for answer in wire.answered()] == [TYPES.SEND_RECEIPT, TYPES.CLOSE_PRODUCER]
    assert wire.sent_up() == []  # the broker keeps it
    assert bench.budget.used == 0


def test_the_producer_is_reopened_with_its_properties() -> None:
    wire = closed(slow_and_fast())
    wire.client_sends(*sent(2, 10))  # they were on their way
    again = producer(0, request_id=77, topic="slow", name="p-0", epoch=1)
    wire.client_sends(again)
    (answer,) = wire.answered()
    assert answer.producer_success.request_id == 77
    assert answer.producer_success.producer_name == "p-0"
    assert wire.sent_up() == []
    wire.client_sends(*sent(3, 4))
    wire.wait(3.1)
    assert sequences(wire) == [(0, 4), (0, 5), (0, 6)]


def test_the_place_of_the_producer_is_kept() -> None:
    bench = Bench()
    bench.set_topic("slow", max_publish_rate=1, max_producers_per_topic=1)
    wire = closed(bench)
    other = Wire(bench, wire.shared, peer="10.0.0.2:5000")
    other.client_sends(producer(0, topic="slow", name="another"))
    assert [answer.type for answer in other.answered()] == [TYPES.ERROR]
    wire.client_sends(producer(0, request_id=77, topic="slow", name="p-0"))
    assert [answer.type for answer in wire.answered()] == [TYPES.PRODUCER_SUCCESS]


def test_the_place_is_released_if_the_client_does_not_return() -> None:
    bench = slow_and_fast()
    wire = closed(bench)
    wire.wait(10.1)
    (close,) = wire.forwarded()
    assert close.close_producer.producer_id == 0
    assert len(bench.gates.states[SLOW].producers) == 0
    wire.broker_sends(frame("success", request_id=close.close_producer.request_id))
    assert wire.answered() == []
    wire.client_sends(send(10))  # it was on its way all the while
    assert wire.closed is None
    # As any other producer:
    again = producer(0, request_id=77, topic="slow", name="p-0")
    wire.client_sends(again)
    assert wire.sent_up() == [again]


@pytest.mark.parametrize(
    "instead",
    [
        producer(0, request_id=77, topic="fast", name="p-0"),
        producer(0, request_id=77, topic="slow", name="other"),
        producer(5, request_id=77, topic="slow", name="p-0"),
    ],
    ids=["id with another topic", "id with another name", "name under another id"],
)
def test_another_producer_under_its_id_is_left_to_the_broker(instead: bytes) -> None:
    wire = closed(slow_and_fast())
    wire.client_sends(instead)
    first, second = wire.sent_up()
    assert parse(first).type == TYPES.CLOSE_PRODUCER
    assert second == instead
    wire.wait(20)
    assert wire.sent_up() == []


def test_a_producer_with_another_id_and_name_is_separate() -> None:
    wire = closed(slow_and_fast())
    for other in (
        producer(5, request_id=7, topic="slow", name="other"),
        producer(6, request_id=8, topic="slow"),
        producer(7, request_id=9, topic="p://"),
    ):
        wire.client_sends(other)
    assert [parse(each).type for each in wire.sent_up()] == [TYPES.PRODUCER] * 2


def test_a_close_by_the_client_replaces_the_gateways_close() -> None:
    bench = slow_and_fast()
    wire = overflowing(bench)
    wire.client_sends(frame("close_producer", producer_id=0, request_id=9))
    wire.wait(12)
    assert [command.type for command in wire.forwarded()] == [TYPES.SEND] * 4 + [TYPES.CLOSE_PRODUCER]
    acknowledge(wire, 0, 1, 2, 3)
    wire.broker_sends(frame("success", request_id=9))
    assert [answer.type for answer in wire.answered()][-1] == TYPES.SUCCESS
    wire.wait(20)
    assert (wire.sent_up(), wire.sent_down(), bench.budget.used) == ([], [], 0)


def test_the_client_may_close_the_producer_while_receipts_are_pending() -> None:
    wire = overflowing(slow_and_fast())
    wire.wait(3.1)
    wire.client_sends(frame("close_producer", producer_id=0, request_id=9))
    acknowledge(wire, 0, 1, 2, 3)
    wire.wait(20)
    assert closes(wire) == []


def test_a_close_by_the_broker_is_forwarded_once() -> None:
    bench = slow_and_fast()
    by_broker = frame("close_producer", producer_id=0, request_id=0)
    wire = overflowing(bench)
    wire.broker_sends(by_broker)
    assert closes(wire) == [0]
    wire.wait(20)
    assert closes(wire) == []
    assert bench.budget.used == 0

    wire = closed(slow_and_fast())
    wire.broker_sends(by_broker)
    assert closes(wire) == []
    again = producer(0, request_id=77, topic="slow", name="p-0")
    wire.client_sends(again)
    assert wire.sent_up() == [again]


def test_messages_that_wait_too_long_are_resent_by_the_client() -> None:
    bench = Bench()
    bench.set_topic("slow", max_publish_rate=0.1)  # a message each 10 s
    wire = overflowing(bench)
    wire.wait(30.1)
    assert sequences(wire) == [(0, 0), (0, 1), (0, 2)]
    assert bench.budget.used == 0
    acknowledge(wire, 0, 1, 2)
    assert closes(wire) == [0]


def test_during_a_pause_one_message_stays_in_memory() -> None:
    disk = Factor("disk", "Free some space.")
    bench = Bench()
    bench.context = ManualContext(config=PulsarConfig)
    bench.context.add([disk])
    wire = opened(bench, "slow", publish_queue=QUEUE)
    disk.set(0.0, "volume 1 is full")
    wire.client_sends(*sent(10))
    wire.wait(60)
    assert (wire.sent_up(), wire.sent_down()) == ([], [])
    assert bench.budget.used == len(send(0)) + FRAME_OVERHEAD
    disk.set(1.0, "")
    wire.wait(1)
    assert sequences(wire) == [(0, 0)]
    acknowledge(wire, 0)
    assert closes(wire) == [0]


def test_a_producer_is_reopened_at_most_once_a_second() -> None:
    """Or a client for which there is no room would send all again without end."""
    bench = slow_and_fast()
    bench.budget.limit = 100
    wire = opened(bench)
    wire.client_sends(*sent(5))
    acknowledge(wire, 0)
    wire.wait(0.9)
    assert closes(wire) == []
    wire.wait(0.2)
    assert closes(wire) == [0]
    assert wire.closed is None
    wire.close()
    assert bench.budget.used == 0


def test_a_receipt_too_many_does_not_close_the_producer_twice() -> None:
    bench = slow_and_fast()
    bench.budget.limit = 100
    wire = opened(bench)
    wire.client_sends(*sent(5))
    acknowledge(wire, 0, 0)
    wire.wait(3)
    assert closes(wire) == [0]
    wire.close()
    assert bench.budget.used == 0


def test_closing_waits_for_the_response_to_the_first_producer_command() -> None:
    bench = slow_and_fast()
    bench.budget.limit = 100
    wire = Wire(bench)
    wire.client_sends(producer(0, request_id=0, topic="slow"), *sent(5))
    acknowledge(wire, 0)
    wire.wait(3)
    assert closes(wire) == []
    wire.broker_sends(frame("producer_success", request_id=0, producer_name="p-0"))
    wire.wait(1)
    assert closes(wire) == [0]


@pytest.mark.parametrize("step", [overflowing, closed])
def test_a_reopening_leaves_nothing_behind_when_its_connection_ends(step: Callable[[Bench], Wire]) -> None:
    bench = slow_and_fast()
    wire = step(bench)
    wire.close()
    assert bench.budget.used == 0
    assert len(bench.gates.states[SLOW].producers) == 0
    assert bench.gates.states[SLOW].limiters["max_publish_rate"].first is None


class TestBudget:
    """What all may hold together is used up."""

    def bench(self) -> Bench:
        bench = Bench()
        for topic in ("slow", "other"):
            bench.set_topic(topic, max_publish_rate=1)
        bench.budget.limit = 100_000
        return bench

    def test_a_quarter_of_the_memory_is_left_to_others(self) -> None:
        bench = self.bench()
        wire = opened(bench)
        wire.client_sends(*[send(number, b"x" * 1_000) for number in range(200)])
        assert 70_000 < bench.budget.used < 75_000
        assert wire.session.held_bytes == bench.budget.used
        assert wire.closed is None

    def test_the_largest_user_frees_memory(self) -> None:
        bench = self.bench()
        large = opened(bench)
        large.client_sends(*[send(number, b"x" * 1_000) for number in range(50)])
        small = Wire(bench, large.shared, peer="10.0.0.2:5000")
        small.client_sends(producer(0, topic="other"))
        small.client_sends(*[send(number, b"x" * 1_000) for number in range(20)])
        assert large.session.held_bytes < 40_000
        small.sent_up()
        small.wait(19.1)
        assert sequences(small) == [(0, number) for number in range(1, 20)]
        assert large.shared.counts["publish_queue_full"] == 1

        large.wait(10)
        stored = [number for _, number in sequences(large)]
        acknowledge(large, *stored)
        large.wait(1)
        acknowledge(large, *[number for _, number in sequences(large)])
        assert stored == list(range(len(stored)))
        assert closes(large) == [0]
        assert (large.session.held_bytes, bench.budget.used) == (0, 0)

    def test_a_closing_producer_keeps_its_memory(self) -> None:
        bench = self.bench()
        large = opened(bench)
        frames = [send(number, b"x" * 1_000) for number in range(50)]
        large.client_sends(*frames, frame("close_producer", producer_id=0, request_id=9))
        small = Wire(bench, large.shared, peer="10.0.0.2:5000")
        small.client_sends(producer(0, topic="other"))
        small.client_sends(*[send(number, b"x" * 1_000) for number in range(50)])
        assert large.shared.counts["publish_queue_full"] == 1  # the small one
        large.wait(60)
        assert large.sent_up()[:50] == frames


@pytest.mark.parametrize("size", [1, 100, 5_000])
def test_counted_bytes_equal_held_bytes(size: int) -> None:
    """Of large reads too, which end once their messages are in the queue."""
    bench = slow_and_fast()
    wire = opened(bench)
    reads = [
        b"".join(send(number, b"x" * size) for number in range(first, first + 500))
        for first in range(0, 5_000, 500)
    ]
    wire.client_sends(send(0))  # it passes
    tracemalloc.start()
    try:
        for read in reads:
            # As from a socket: bytes with no other reference.
            wire.session.receive_client(bytes(bytearray(read)), wire.now)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert wire.shared.counts["publish_queue_full"] == 0
    assert bench.budget.used * 0.7 < held < bench.budget.used * 1.05
