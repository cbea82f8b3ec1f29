"""What takes long is done in slices: the session asks for a turn between two of them, and order is kept."""

import struct
from itertools import pairwise

import pytest
from tests.pulsar.session.deliveries import (
    EXCLUSIVE,
    SHARED,
    attach,
    delivered,
    message,
    state_of,
    subscribe,
)
from tests.pulsar.session.messages import frame, producer, producer_success, send
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.metadata import MESSAGES_PER_SLICE
from sluicegate_pulsar.codec.varints import write_uvarint
from sluicegate_pulsar.session.requests.stream import MESSAGE_WORK, WORK_PER_TURN


def publishing(bench: Bench) -> Wire:
    """A connection with one producer."""
    wire = Wire(bench)
    wire.client_sends(producer())
    wire.broker_sends(producer_success())
    wire.sent_up()
    wire.sent_down()
    return wire


def sequences(wire: Wire) -> list[int]:
    """Of the messages that reached the broker since the last call."""
    return [command.send.sequence_id for command in wire.forwarded() if command.HasField("send")]


def batch(count: int, payload: bytes = b"x", largest: int = 0) -> bytes:
    """The payload of a batch of so many messages, the last of them with so many bytes if that is not 0."""
    single = pb.SingleMessageMetadata(payload_size=len(payload)).SerializeToString()
    one = struct.pack(">I", len(single)) + single + payload
    last = pb.SingleMessageMetadata(payload_size=largest).SerializeToString()
    end = struct.pack(">I", len(last)) + last + bytes(largest) if largest else one
    return one * (count - 1) + end


def test_a_read_of_many_small_messages_takes_several_turns() -> None:
    wire = publishing(Bench(max_publish_rate=1_000_000))
    wire.client_sends(*[send(number) for number in range(2_500)])
    assert sequences(wire) == list(range(1_000))
    wire.client_sends(send(2_500))
    assert sequences(wire) == []
    assert wire.take_turn()
    assert sequences(wire) == list(range(1_000, 2_000))
    assert wire.take_turn()
    assert sequences(wire) == list(range(2_000, 2_501))
    assert not wire.take_turn()
    assert wire.shared.budget.used == 0


def test_a_batch_of_many_messages_over_the_limit_is_walked_in_slices() -> None:
    wire = publishing(Bench(max_message_size=100))
    large = send(0, batch(10_000), num_messages_in_batch=10_000)
    wire.client_sends(large, send(10_000, b"behind"))
    assert sequences(wire) == []
    turns = 0
    while wire.take_turn():
        turns += 1
    assert turns == 5  # the producer's attaching and the last slice are a turn together
    assert sequences(wire) == [0, 10_000]
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def test_batches_that_are_walked_share_the_turns_of_their_connection() -> None:
    wire = publishing(Bench(max_message_size=100))
    size = MESSAGES_PER_SLICE // 2 + 20  # the last 100 bytes are not walked
    walked = [send(number, batch(size), num_messages_in_batch=size) for number in range(6)]
    wire.client_sends(*walked, send(6, b"behind"))
    seen = [sequences(wire)]
    wire.client_sends(send(7, b"later"))
    while wire.take_turn():
        seen.append(sequences(wire))
    assert seen == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def test_a_message_over_the_limit_is_found_in_a_later_slice() -> None:
    wire = publishing(Bench(max_message_size=100))
    payload = batch(10_000, largest=101)
    wire.client_sends(send(0, payload, num_messages_in_batch=10_000))
    while wire.take_turn():
        pass
    assert sequences(wire) == []
    (answer,) = wire.answered()
    assert answer.HasField("send_error")


def test_nothing_behind_a_batch_that_turns_out_malformed_is_forwarded() -> None:
    wire = publishing(Bench(max_message_size=100))
    broken = batch(4_000) + b"\xff" * 500
    wire.client_sends(send(0, broken, num_messages_in_batch=4_500), send(4_500, b"behind"))
    wire.take_turns()
    assert sequences(wire) == []
    assert wire.closed is not None
    assert wire.shared.budget.used == len(send(4_500, b"behind"))
    wire.close()
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def test_batches_that_cannot_exceed_the_limit_are_not_walked() -> None:
    payload = batch(10_000)
    wire = publishing(Bench(max_message_size=len(payload) - 100))
    wire.client_sends(send(0, payload, num_messages_in_batch=10_000))
    assert sequences(wire) == [0]
    assert not wire.take_turn()


def test_a_client_that_disconnects_during_a_walk_leaves_nothing_behind() -> None:
    wire = publishing(Bench(max_message_size=100))
    wire.client_sends(send(0, batch(10_000), num_messages_in_batch=10_000))
    assert wire.shared.budget.used > 0
    wire.close()
    assert wire.shared.budget.used == 0


def test_waiting_messages_are_forwarded_in_slices_once_the_limit_is_lifted() -> None:
    bench = Bench(max_publish_rate=1)
    wire = publishing(bench)
    wire.client_sends(*[send(number) for number in range(901)])
    assert sequences(wire) == [0]
    bench.set()
    assert wire.wake()
    seen = [sequences(wire)]
    while wire.take_turn():
        seen.append(sequences(wire))
    assert [number for part in seen for number in part] == list(range(1, 901))
    assert max(map(len, seen)) == 250


def test_producers_share_the_slice_of_their_connection() -> None:
    bench = Bench(max_publish_rate=1)
    wire = publishing(bench)
    for producer_id in range(1, 5):
        wire.client_sends(producer(producer_id, request_id=producer_id + 1))
        wire.broker_sends(producer_success(producer_id + 1, name=f"p{producer_id}"))
    wire.sent_up()
    for producer_id in range(5):
        wire.client_sends(*[send(number, producer_id=producer_id) for number in range(200)])
    wire.sent_up()
    bench.set()
    assert wire.wake()
    sent = [len(sequences(wire))]
    while wire.take_turn():
        sent.append(len(sequences(wire)))
    assert max(sent) == 250
    assert sum(sent) == 5 * 200 - 1


def test_a_long_acknowledgement_is_counted_in_slices_and_forwarded_afterwards() -> None:
    wire = Wire(Bench(max_unacked_messages_per_consumer=100_000))
    attach(wire, kind=EXCLUSIVE)
    wire.broker_sends(*[message(number) for number in range(5_000)])
    while wire.take_turn():
        pass
    wire.sent_down()
    ids = [{"ledger_id": 7, "entry_id": number} for number in range(5_000)]
    long = frame("ack", consumer_id=0, ack_type=pb.Ack.INDIVIDUAL, message_id=ids)
    wire.sent_up()
    wire.client_sends(long)
    counts = [sum(state_of(wire).subscription("sub").unacked.values())]
    assert wire.sent_up() == []
    while wire.take_turn():
        counts.append(sum(state_of(wire).subscription("sub").unacked.values()))
    assert counts == [5_000, 3_000, 1_000, 0]
    assert wire.sent_up() == [long]
    assert wire.shared.budget.used == 0


def test_a_long_redelivery_list_is_processed_before_it_is_forwarded() -> None:
    wire = Wire(Bench(max_unacked_messages_per_consumer=100_000))
    attach(wire, kind=SHARED)
    wire.broker_sends(*[message(number) for number in range(5_000)])
    while wire.take_turn():
        pass
    ids = [{"ledger_id": 7, "entry_id": number} for number in range(5_000)]
    wire.sent_up()
    wire.client_sends(frame("redeliver_unacknowledged_messages", consumer_id=0, message_ids=ids))
    assert wire.sent_up() == []
    while wire.take_turn():
        pass
    assert len(wire.sent_up()) == 1
    assert sum(state_of(wire).subscription("sub").unacked.values()) == 0


def test_a_command_with_more_fields_than_clients_write_ends_the_connection() -> None:
    wire = Wire(Bench())
    fields = b"".join(write_uvarint(number << 3) + b"\1" for number in range(1_000, 1_040))
    command = b"\x08\x12" + fields
    wire.client_sends(struct.pack(">II", len(command) + 4, len(command)) + command)
    assert wire.closed is not None
    assert "over 32 fields" in wire.closed.detail


def test_producers_and_consumers_attach_in_slices() -> None:
    wire = Wire(Bench(max_producers_per_topic=1_000, max_consumers_per_topic=1_000))
    states = wire.shared.gates.states
    frames = []
    for number in range(50):
        frames.append(producer(number, request_id=2 * number, topic=f"t{number}"))
        frames.append(subscribe(number, request_id=2 * number + 1, topic=f"s{number}"))
    wire.client_sends(*frames, send(0, producer_id=49))
    seen = [len(states)]
    while wire.take_turn():
        seen.append(len(states))
    assert seen == [*range(10, 101, 10), 100]
    assert wire.sent_up() == [*frames, send(0, producer_id=49)]
    assert wire.shared.budget.used == 0


def test_reopening_an_open_producer_is_sliced_too() -> None:
    wire = publishing(Bench(max_producers_per_topic=5))
    again = [producer(request_id=number) for number in range(2, 102)]
    wire.client_sends(*again)
    assert len(wire.sent_up()) <= 10
    most = 0
    while wire.take_turn():
        most = max(most, len(wire.sent_up()))
    assert most == 10


def test_messages_from_the_broker_are_sliced_and_keep_their_order() -> None:
    wire = Wire(Bench(max_dispatch_rate=1_000_000))
    attach(wire, kind=EXCLUSIVE)
    wire.sent_down()
    most = WORK_PER_TURN // MESSAGE_WORK
    wire.broker_sends(*[message(number) for number in range(2 * most + 10)])
    wire.broker_sends(message(2 * most + 10))
    found = [delivered(wire)]
    while wire.take_turn():
        found.append(delivered(wire))
    assert max(map(len, found)) <= most + 1
    assert [entry for some in found for entry in some] == list(range(2 * most + 11))
    assert wire.shared.budget.used == 0


@pytest.mark.parametrize(("entries", "passes"), [(500, True), (5_000, False)])
def test_a_command_with_a_long_list_ends_the_connection_unread(entries: int, passes: bool) -> None:
    wire = Wire(Bench())
    metadata = [{"key": "k" * 40, "value": ""}] * entries
    wire.client_sends(frame("producer", topic="t", producer_id=0, request_id=1, metadata=metadata))
    assert (wire.closed is None) == passes
    if wire.closed is not None:
        assert "over 2000 fields in one command" in wire.closed.detail


@pytest.mark.parametrize(("ids", "passes"), [(40_000, True), (60_000, False)])
def test_more_ids_than_a_consumer_has_end_the_connection(ids: int, passes: bool) -> None:
    wire = Wire(Bench())
    listed = [{"ledger_id": 7, "entry_id": 7}] * ids
    wire.client_sends(frame("ack", consumer_id=0, ack_type=pb.Ack.INDIVIDUAL, message_id=listed))
    assert (wire.closed is None) == passes


def test_a_large_schema_passes() -> None:
    wire = Wire(Bench())
    schema = {"name": "s", "schema_data": b"x" * 900_000, "type": 2}
    wire.client_sends(frame("producer", topic="t", producer_id=0, request_id=1, schema=schema))
    assert wire.closed is None


@pytest.mark.parametrize("from_broker", [False, True])
@pytest.mark.parametrize("fields", [0, 29])
def test_commands_with_unusual_encoding_take_more_turns(from_broker: bool, fields: int) -> None:
    wire = Wire(Bench())
    one = frame("end_txn", request_id=1)[8:]
    command = one + b"".join(write_uvarint(number << 3) + b"\1" for number in range(1_000, 1_000 + fields))
    frames = [struct.pack(">II", len(command) + 4, len(command)) + command] * 3_000
    sent = wire.sent_down if from_broker else wire.sent_up
    (wire.broker_sends if from_broker else wire.client_sends)(*frames)
    seen = [sent()]
    while wire.take_turn():
        seen.append(sent())
    assert [each for some in seen for each in some] == frames
    assert max(map(len, seen)) * len(command) <= WORK_PER_TURN
    assert wire.shared.budget.used == 0


def test_messages_take_more_turns_once_the_policies_of_many_topics_have_changed() -> None:
    wire = Wire(Bench(max_publish_rate=1_000_000))
    count = 35
    for number in range(count):
        wire.client_sends(producer(number, request_id=number, topic=f"t{number}"))
        wire.take_turns()
        wire.broker_sends(producer_success(number))
    wire.sent_up()
    gates = wire.shared.gates
    gates.replace()
    before = [gates.compiled]
    wire.client_sends(*[send(0, producer_id=number) for number in range(count)])
    before.append(gates.compiled)
    while wire.take_turn():
        before.append(gates.compiled)
    assert len(wire.sent_up()) == before[-1] - before[0] == count
    assert max(b - a for a, b in pairwise(before)) <= 10
    wire.client_sends(*[send(1, producer_id=number) for number in range(count)])
    assert len(wire.sent_up()) == count


def test_consumers_of_many_topics_follow_changed_policies_in_slices() -> None:
    bench = Bench()
    wire = Wire(bench)
    count = 35
    for number in range(count):
        attach(wire, number, number, topic=f"t{number}", kind=EXCLUSIVE)
        wire.take_turns()
    gates = wire.shared.gates
    bench.set(max_dispatch_rate=1)
    seen = [gates.compiled]
    wire.broker_sends(message(1, consumer_id=count - 1))
    seen.append(gates.compiled)
    bench.set(max_dispatch_rate=1, max_message_size=9_000)  # meanwhile
    while wire.take_turn():
        seen.append(gates.compiled)
    assert max(b - a for a, b in pairwise(seen)) <= 10
    delivered(wire)
    for number in range(count):
        wire.broker_sends(*[message(entry, consumer_id=number) for entry in (2, 3)])
        assert delivered(wire) == [2]
        wire.client_sends(frame("close_consumer", consumer_id=number, request_id=1_000 + number))
    assert (wire.shared.budget.used, wire.session.held_bytes) == (0, 0)


def test_producers_and_consumers_of_a_closed_connection_are_detached_in_slices() -> None:
    wire = Wire(Bench(max_producers_per_topic=5, max_consumers_per_topic=5))
    count = 250
    for number in range(count):
        wire.client_sends(producer(number, request_id=2 * number, topic=f"t{number}"))
        wire.client_sends(subscribe(number, request_id=2 * number + 1, topic=f"t{number}"))
        wire.take_turns()

    def attached() -> int:
        states = wire.shared.gates.states.values()
        return sum(len(state.producers) + state.consumer_count for state in states)

    seen = [attached()]
    for _ in wire.session.parting(wire.now):
        seen.append(attached())
    seen.append(attached())
    assert (seen[0], seen[-1]) == (2 * count, 0)
    assert max(a - b for a, b in pairwise(seen)) < 200
    assert wire.shared.budget.used == 0
