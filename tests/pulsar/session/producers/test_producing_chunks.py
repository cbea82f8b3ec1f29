"""Chunked messages with a fixed delay: all chunks have one delivery time, ahead of when they are stored."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.pulsar.session.messages import JAVA, TYPES, frame, parse, producer_success, receipt, send
from tests.pulsar.session.messages import producer as open_producer
from tests.pulsar.session.producers.test_producing_claims import chunk
from tests.pulsar.session.producers.test_producing_delay import NOW, metadata
from tests.pulsar.session.producers.test_producing_delay import opened as opened_at
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.session.producer_state.chunks import RefusedMessages, key_of

DELAY_MS = 300
TOO_SLOW = "The next chunk of a message with a delivery delay has not come in time"
NO_MEMORY = "The gateway has no memory left for the chunks of a message with a delivery delay"
TOO_LARGE = "A chunked message with a delivery delay has to fit into the gateway's chunk_buffer"


def opened(policies: dict[str, Any] | None = None, **options: Any) -> Wire:
    """A connection with one producer to a topic with a fixed delay."""
    return opened_at(Bench(fixed_delivery_delay=DELAY_MS, **(policies or {})), version=JAVA, **options)


def chunks(count: int, sequence_id: int = 0, size: int = 10, **more: Any) -> list[bytes]:
    """All chunks of one message."""
    fields = {"publish_time": NOW, **more}
    return [chunk(each, count, b"x" * size, size * count, sequence_id, **fields) for each in range(count)]


def sent(wire: Wire) -> list[tuple[int, int]]:
    """Sequence id and delivery time of what reached the broker since the last call."""
    found = wire.sent_up()
    return [(parse(each).send.sequence_id, metadata(each).deliver_at_time) for each in found]


def refused(wire: Wire) -> list[tuple[int, str]]:
    """Sequence id and text of the errors that reached the client since the last call."""
    errors = [each.send_error for each in wire.answered() if each.HasField("send_error")]
    return [(error.sequence_id, error.message) for error in errors]


def test_chunks_wait_for_the_last_and_have_one_delivery_time() -> None:
    wire = opened()
    first, second, last = chunks(3)
    for each in (first, second):
        wire.client_sends(each)
        wire.wait(0.4)
        assert sent(wire) == []
    wire.client_sends(last)
    (due,) = {deliver_at for _, deliver_at in sent(wire)}
    assert due == NOW + 800 + 1_000  # later than published and delayed, as the broker has to store them first
    assert wire.shared.budget.used == 0


def test_a_delay_with_enough_time_is_exact() -> None:
    wire = opened_at(Bench(fixed_delivery_delay=60_000))
    wire.client_sends(*chunks(3))
    assert {deliver_at for _, deliver_at in sent(wire)} == {NOW + 60_000}


def test_larger_messages_get_more_time_at_the_broker() -> None:
    mib = 2**20
    wire = opened({"max_message_size": 0})
    wire.client_sends(*chunks(4, size=2 * mib))
    (due,) = {deliver_at for _, deliver_at in sent(wire)}
    assert 3_048 <= due - NOW < 3_060
    wire.client_sends(*chunks(4, 1, size=2 * mib))
    (due,) = {deliver_at for _, deliver_at in sent(wire)}
    assert 5_096 <= due - NOW < 5_110  # it has yet to store the first
    wire.broker_sends(*[receipt(sequence_id) for sequence_id in (0, 1) for _ in range(4)])
    wire.client_sends(*chunks(4, 2, size=2 * mib))
    (due,) = {deliver_at for _, deliver_at in sent(wire)}
    assert 3_048 <= due - NOW < 3_060


def test_a_tick_is_added_for_brokers_that_are_not_strict() -> None:
    wire = opened()
    wire.shared.added_delay_ms = 500
    wire.client_sends(*chunks(2))
    assert {deliver_at for _, deliver_at in sent(wire)} == {NOW + 1_500}


def test_nothing_overtakes_chunks_that_wait() -> None:
    """Clients take a receipt out of turn for a reason to reconnect."""
    wire = opened()
    first, last = chunks(2)
    wire.client_sends(first, send(1, publish_time=NOW))
    assert sent(wire) == []
    wire.client_sends(last)
    assert [sequence_id for sequence_id, _ in sent(wire)] == [0, 1, 0]


def test_interleaved_chunks_are_forwarded_once_all_are_complete() -> None:
    wire = opened()
    one, other = chunks(2), chunks(2, 1)
    wire.client_sends(one[0], other[0], one[1])
    assert sent(wire) == []
    wire.client_sends(other[1])
    assert [sequence_id for sequence_id, _ in sent(wire)] == [0, 1, 0, 1]


def test_a_resent_message_is_forwarded_once_complete() -> None:
    """What has its receipt is not sent again by a client that has reconnected."""
    wire = opened()
    wire.client_sends(chunks(3)[2])
    assert sent(wire) == [(0, NOW + 1_000)]


def test_without_a_delay_chunks_pass_at_once() -> None:
    wire = opened_at(Bench(max_publish_rate=1_000))
    wire.client_sends(chunks(3)[0])
    assert len(wire.sent_up()) == 1


class TestBounds:
    """A message that does not become complete is refused, and what waits behind it goes on."""

    def test_the_next_chunk_must_arrive_within_max_hold(self) -> None:
        wire = opened(max_hold="2s")
        first, second, last = chunks(3)
        wire.client_sends(first)
        wire.wait(1.9)
        wire.client_sends(second, send(1, publish_time=NOW))
        wire.wait(1.9)
        assert sent(wire) == []
        wire.wait(0.2)
        assert [answer.type for answer in wire.answered()] == [TYPES.SEND_RECEIPT] * 2
        assert [sequence_id for sequence_id, _ in sent(wire)] == [1]
        wire.client_sends(last, send(2, publish_time=NOW))
        wire.broker_sends(receipt(1))
        assert [sequence_id for sequence_id, _ in sent(wire)] == [2]
        assert refused(wire) == [(0, TOO_SLOW)]
        assert wire.shared.counts["chunks_incomplete"] == 1
        assert wire.shared.budget.used == 0

    def test_time_held_by_the_gateway_does_not_count(self) -> None:
        wire = opened({"max_publish_rate": 0.2}, max_hold="2s")
        wire.client_sends(*chunks(3))
        wire.wait(20)
        assert [sequence_id for sequence_id, _ in sent(wire)] == [0, 0, 0]

    def test_a_message_that_does_not_fit_is_refused(self) -> None:
        wire = opened(chunk_buffer=1_000)
        wire.client_sends(send(0, publish_time=NOW), *chunks(4, 1, size=400), send(2, publish_time=NOW))
        assert [sequence_id for sequence_id, _ in sent(wire)] == [0, 2]
        wire.broker_sends(receipt(0))
        assert refused(wire) == [(1, TOO_LARGE)]
        assert wire.shared.counts["chunk_buffer_full"] == 1
        assert wire.shared.budget.used == 0

    def test_a_message_beyond_the_memory_budget_is_refused(self) -> None:
        wire = opened()
        wire.shared.budget.limit = 100
        wire.client_sends(*chunks(2, size=400))
        assert refused(wire) == [(0, NO_MEMORY)]
        assert wire.closed is None
        assert wire.shared.budget.used == 0

    def test_a_refused_chunk_refuses_the_others(self) -> None:
        wire = opened({"max_message_size": 25})
        wire.client_sends(send(0, publish_time=NOW))
        wire.client_sends(*[chunk(each, 4, b"x" * 10, 20, 1, publish_time=NOW) for each in range(4)])
        wire.client_sends(send(2, publish_time=NOW))
        assert [sequence_id for sequence_id, _ in sent(wire)] == [0, 2]
        assert refused(wire) == []
        wire.broker_sends(receipt(0))
        assert [sequence_id for sequence_id, _ in refused(wire)] == [1]

    def test_a_refusal_keeps_its_place_among_chunks_that_wait(self) -> None:
        wire = opened({"max_message_size": 25})
        first, last = chunks(2)
        wire.client_sends(first, send(1, b"x" * 26, publish_time=NOW))
        assert refused(wire) == []
        wire.client_sends(last)
        assert [sequence_id for sequence_id, _ in sent(wire)] == [0, 0]
        wire.broker_sends(receipt(0))
        assert [sequence_id for sequence_id, _ in refused(wire)] == [1]

    def test_refusals_and_small_chunks_take_memory_too(self) -> None:
        wire = opened({"max_message_size": 25}, chunk_buffer=100_000)
        wire.client_sends(chunks(2)[0], *[send(each, b"x" * 26, publish_time=NOW) for each in range(1, 200)])
        assert wire.shared.counts["chunk_buffer_full"] == 1
        assert len(refused(wire)) > 100
        wire.client_sends(*[chunks(2, 200 + each, 1)[0] for each in range(200)])
        assert wire.shared.counts["chunk_buffer_full"] >= 2
        wire.close()
        assert wire.shared.budget.used == 0

    def test_nothing_overtakes_a_refusal_without_memory(self) -> None:
        """Its client sends it again, and all that came behind it."""
        wire = opened()
        first, last = chunks(2, 1)
        wire.client_sends(send(0, publish_time=NOW), first, send(2, publish_time=NOW))
        wire.shared.budget.limit = 100
        wire.client_sends(last, send(3, publish_time=NOW))
        assert [sequence_id for sequence_id, _ in sent(wire)] == [0]
        wire.broker_sends(receipt(0))
        wire.wait(1)
        assert [each.type for each in wire.answered()] == [TYPES.SEND_RECEIPT, TYPES.CLOSE_PRODUCER]
        wire.shared.budget.limit = 0
        wire.client_sends(open_producer(request_id=5, name="standalone-0-1", epoch=1))
        wire.client_sends(first, send(2, publish_time=NOW), last, send(3, publish_time=NOW))
        assert [sequence_id for sequence_id, _ in sent(wire)] == [1, 2, 1, 3]
        assert wire.shared.budget.used == 0

    def test_a_message_with_the_same_sequence_id_is_separate(self) -> None:
        """Applications number messages themselves, and send again under that number what was refused."""
        wire = opened({"max_message_size": 25})
        wire.client_sends(*chunks(3))
        assert [sequence_id for sequence_id, _ in refused(wire)] == [0]
        wire.client_sends(*chunks(2))
        assert [sequence_id for sequence_id, _ in sent(wire)] == [0, 0]


class TestEnds:
    """Nothing is left behind, and nothing incomplete goes on."""

    def test_chunks_are_dropped_when_the_client_closes_the_producer(self) -> None:
        wire = opened()
        close = frame("close_producer", producer_id=0, request_id=9)
        wire.client_sends(chunks(2)[0], send(1, publish_time=NOW), close)
        assert [each.type for each in wire.forwarded()] == [6, 15]
        assert wire.shared.budget.used == 0

    @pytest.mark.parametrize("who", ["broker", "connection"])
    def test_chunks_are_dropped_when_the_producer_is_closed(self, who: str) -> None:
        wire = opened()
        wire.client_sends(chunks(2)[0], send(1, publish_time=NOW))
        if who == "broker":
            wire.broker_sends(frame("close_producer", producer_id=0, request_id=2**64 - 1))
            wire.client_sends(open_producer(request_id=3))
            wire.broker_sends(producer_success(3))
            wire.sent_up()
            wire.client_sends(send(1, publish_time=NOW))
            assert [sequence_id for sequence_id, _ in sent(wire)] == [1]
        else:
            wire.close()
            assert wire.sent_up() == []
        assert wire.shared.budget.used == 0

    @pytest.mark.parametrize("who", ["broker", "client"])
    def test_dropped_chunks_delay_no_later_message(self, who: str) -> None:
        wire = opened({"max_message_size": 0})
        wire.client_sends(*chunks(4, size=2 * 2**20))
        if who == "broker":
            wire.broker_sends(frame("close_producer", producer_id=0, request_id=2**64 - 1))
        else:
            wire.client_sends(frame("close_producer", producer_id=0, request_id=9))
            wire.broker_sends(*[receipt(0)] * 4, frame("success", request_id=9))
        wire.client_sends(open_producer(request_id=3))
        wire.broker_sends(producer_success(3))
        wire.sent_up()
        wire.wait(10)
        wire.client_sends(*chunks(2, 1, publish_time=NOW + 10_000))
        assert {deliver_at for _, deliver_at in sent(wire)} == {NOW + 11_000}

    def test_removing_the_delay_releases_chunks(self) -> None:
        bench = Bench(fixed_delivery_delay=DELAY_MS)
        wire = opened_at(bench)
        frames = chunks(2)
        wire.client_sends(frames[0])
        bench.set(max_publish_rate=1_000)
        wire.client_sends(frames[1])
        assert wire.sent_up() == frames
        wire.client_sends(send(1))
        assert len(wire.sent_up()) == 1

    def test_a_transaction_does_not_end_before_its_chunks(self) -> None:
        wire = opened()
        txn = {"txnid_least_bits": 1, "txnid_most_bits": 2}
        fields = {"num_chunks_from_msg": 2, "uuid": "u", "total_chunk_msg_size": 10, "publish_time": NOW}
        command = {"is_chunk": True, **txn}
        first, last = (send(0, b"x", command=command, chunk_id=each, **fields) for each in (0, 1))  # type: ignore[arg-type]
        wire.client_sends(first, frame("end_txn", request_id=4, **txn, txn_action=0))
        assert wire.sent_up() == []
        wire.client_sends(last)
        assert [each.type for each in wire.forwarded()] == [6, 6, 56]


class TestReopening:
    """A producer that overflows its queue is reopened, and resends what has no receipt."""

    def test_chunks_resent_by_the_client(self) -> None:
        wire = opened({"max_publish_rate": 1, "max_message_size": 50}, publish_queue={"messages": 2})
        frames = chunks(5)  # the first is kept, two wait for their rate, the others are discarded
        wire.client_sends(*frames)
        wire.wait(3)
        assert sent(wire) == []
        closes = [each for each in wire.answered() if each.HasField("close_producer")]
        assert len(closes) == 1
        assert wire.shared.budget.used == 0
        wire.client_sends(open_producer(request_id=5, name="standalone-0-1", epoch=1))
        assert [each.HasField("producer_success") for each in wire.answered()] == [True]
        for each in frames:
            wire.client_sends(each)
            wire.wait(1)
        assert [sequence_id for sequence_id, _ in sent(wire)] == [0] * 5
        assert refused(wire) == []
        assert wire.shared.budget.used == 0

    def test_a_message_held_by_its_rate_is_completed_first(self) -> None:
        """Or it would be counted from its first chunk at each turn, and never be stored."""
        wire = opened({"max_publish_rate": 1}, publish_queue={"messages": 20})
        wire.client_sends(*chunks(15), *[send(number, publish_time=NOW) for number in range(1, 15)])
        assert wire.shared.counts["publish_queue_full"] == 1
        wire.wait(15)
        assert [sequence_id for sequence_id, _ in sent(wire)] == [0] * 15 + [1]
        wire.broker_sends(*[receipt(0)] * 15, receipt(1))
        wire.wait(1)
        assert [each.type for each in wire.answered()][-1] == TYPES.CLOSE_PRODUCER

    def test_a_message_whose_rest_never_comes_is_refused_all_the_same(self) -> None:
        wire = opened({"max_publish_rate": 20}, publish_queue={"messages": 5})
        single = [send(number, publish_time=NOW) for number in range(1, 40)]
        stored = resending(wire, [*chunks(2)[:1], *single], seconds=60)
        assert stored == list(range(1, 40))
        assert wire.shared.counts["chunks_incomplete"] == 1
        assert wire.shared.budget.used == 0

    def test_a_message_that_gains_chunks_is_not_refused_however_long_it_takes(self) -> None:
        wire = opened({"max_publish_rate": 1}, publish_queue={"messages": 4}, max_hold="1s")
        single = [send(number, publish_time=NOW) for number in range(4)]
        stored = resending(wire, [*single, *chunks(5, 4)], seconds=30, pauses=(0, 2))
        assert stored == [0, 1, 2, 3, *[4] * 5]
        assert wire.shared.counts["publish_producer_closed"] == 2
        assert wire.shared.counts["chunks_incomplete"] == 0


def resending(wire: Wire, pending: list[bytes], seconds: int, pauses: Sequence[int] = ()) -> list[int]:
    """Play a client that sends again what has no receipt when it has to reopen its producer.

    :param pauses: seconds until it does, the first times.
    :return: sequence ids of what the broker stored.
    """
    stored: list[int] = []
    pause = iter(pauses)
    wire.client_sends(*pending)
    for second in range(seconds):
        wire.wait(1)
        numbers = [number for number, _ in sent(wire)]
        stored += numbers
        wire.broker_sends(*[receipt(number) for number in numbers])
        for answer in wire.answered():
            if answer.HasField("send_receipt"):
                assert parse(pending.pop(0)).send.sequence_id == answer.send_receipt.sequence_id
            if answer.HasField("close_producer"):
                wire.wait(next(pause, 0))
                wire.client_sends(open_producer(request_id=100 + second, name="standalone-0-1"), *pending)
    return stored


class TestRefusedInPart:
    """A client that reopens its producer sends what has no receipt: of a refused message only the rest."""

    def refused_in_part(self) -> tuple[Wire, list[bytes]]:
        """A message whose first two chunks have their empty receipts, when the error has yet to come."""
        wire = opened(max_hold="2s")
        frames = chunks(4)
        wire.client_sends(*frames[:2])
        wire.wait(2.1)
        assert [answer.type for answer in wire.answered()] == [TYPES.SEND_RECEIPT] * 2
        return wire, frames

    def anew(self, wire: Wire, request_id: int = 5) -> None:
        wire.client_sends(open_producer(request_id=request_id, name="standalone-0-1", epoch=1))
        wire.broker_sends(producer_success(request_id))
        wire.sent_up()
        wire.answered()

    def another(self, wire: Wire) -> Wire:
        wire.close()
        other = Wire(Bench(fixed_delivery_delay=DELAY_MS), wire.shared, version=JAVA)
        other.now = wire.now
        self.anew(other)
        return other

    @pytest.mark.parametrize("who", ["broker", "connection"])
    def test_the_remaining_chunks_are_refused(self, who: str) -> None:
        wire, frames = self.refused_in_part()
        if who == "broker":
            wire.broker_sends(frame("close_producer", producer_id=0, request_id=2**64 - 1))
            self.anew(wire)
        else:
            wire = self.another(wire)
        wire.client_sends(*frames[2:], send(1, publish_time=NOW))
        assert refused(wire) == [(0, TOO_SLOW)]
        assert [sequence_id for sequence_id, _ in sent(wire)] == [1]

    def test_a_message_sent_from_its_first_chunk_is_accepted(self) -> None:
        wire, frames = self.refused_in_part()
        wire = self.another(wire)
        wire.client_sends(*frames)
        assert [sequence_id for sequence_id, _ in sent(wire)] == [0] * 4

    def test_a_refused_message_is_remembered_for_five_minutes(self) -> None:
        wire, frames = self.refused_in_part()
        wire = self.another(wire)
        wire.wait(300)
        wire.client_sends(*frames[2:])
        assert [sequence_id for sequence_id, _ in sent(wire)] == [0, 0]

    def test_unannounced_chunks_are_refused_too(self) -> None:
        wire = opened({"max_message_size": 25})
        for each, size in ((0, 30), (1, 5)):
            fields: Any = {"num_chunks_from_msg": 2, "chunk_id": each, "uuid": "u", "publish_time": NOW}
            wire.client_sends(send(0, b"x" * size, **fields))
        assert wire.sent_up() == []
        wire.shared.refused_messages = RefusedMessages()  # as if many others had come since
        wire.client_sends(send(0, b"x", **fields))
        assert wire.sent_up() == []

    def test_the_number_of_remembered_messages_is_bounded(self) -> None:
        found = RefusedMessages()
        keys = [("t", "p", key_of(f"{number}" * 300)) for number in range(2_000)]
        for key in keys:
            found.note(key, "why", 0)
        assert max(len(key) for _, _, key in keys) == 64
        assert [found.text(key, 1) for key in (keys[0], keys[-1])] == ["", "why"]
