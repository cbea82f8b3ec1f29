"""One client's bytes in, the broker's bytes out; bad input affects that client only."""

from typing import Any

import pytest
from benchmarks.harness.pulsar_bytes import payload_frame
from tests.pulsar.reference.lab import NOW, TOPIC, Client

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import (
    MAGIC_BROKER_ENTRY,
    command_frame,
    command_type,
    has_valid_checksum,
    split,
)
from sluicegate_pulsar.reference.broker import LABEL, Broker, Settings

BASE = pb.BaseCommand


def connect(token: bytes = b"", method: str = "", entry_metadata: bool = False) -> bytes:
    request = pb.Connect(client_version="test", protocol_version=99, auth_data=token, auth_method_name=method)
    request.feature_flags.supports_broker_entry_metadata = entry_metadata
    return command_frame(BASE(type=BASE.CONNECT, connect=request))


def producer(number: int = 1, topic: str = TOPIC, **fields: Any) -> bytes:
    request = pb.Producer(topic=topic, producer_id=number, request_id=100 + number, **fields)
    return command_frame(BASE(type=BASE.PRODUCER, producer=request))


def sent(number: int = 1, sequence: int = 0, payload: bytes = b"hello", **metadata: Any) -> bytes:
    command = BASE(type=BASE.SEND, send=pb.Send(producer_id=number, sequence_id=sequence))
    head = pb.MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=NOW, **metadata)
    return payload_frame(command, head.SerializeToString(), payload)


def subscribe(number: int = 1, kind: int = pb.Subscribe.SHARED, **fields: Any) -> bytes:
    request = pb.Subscribe(
        topic=TOPIC,
        subscription="sub",
        consumer_id=number,
        request_id=200 + number,
        sub_type=kind,
        **fields,
    )
    return command_frame(BASE(type=BASE.SUBSCRIBE, subscribe=request))


def flow(number: int = 1, permits: int = 10) -> bytes:
    return command_frame(BASE(type=BASE.FLOW, flow=pb.Flow(consumer_id=number, message_permits=permits)))


def connected(
    broker: Broker | None = None, settings: Settings | None = None, entry_metadata: bool = False
) -> Client:
    client = Client(broker, settings)
    client.give(connect(entry_metadata=entry_metadata))
    return client


def test_announces_its_version() -> None:
    (answer,) = Client(settings=Settings(max_message_size=1_000)).give(connect())
    assert answer.connected.server_version == LABEL == "sluicegate-reference-broker"
    assert answer.connected.max_message_size == 1_000
    assert answer.connected.protocol_version == 20


def test_frames_may_arrive_in_any_fragments() -> None:
    client = Client()
    data = connect() + producer() + sent()
    answers = [answer for at in range(len(data)) for answer in client.give(data[at : at + 1])]
    assert [answer.type for answer in answers] == [BASE.CONNECTED, BASE.PRODUCER_SUCCESS, BASE.SEND_RECEIPT]


def test_delivers_messages_unchanged() -> None:
    client = connected()
    client.give(producer() + subscribe(initial_position=pb.Subscribe.EARLIEST) + flow())
    frame = sent(payload=b"x" * 50)
    client.connection.receive(frame, NOW)
    receipt, message = client.frames
    parts, came = split(frame, 0, len(frame)), split(message, 0, len(message))
    assert message[came.command_end :] == frame[parts.command_end :]
    assert has_valid_checksum(message, came)
    answers = client.take()
    assert answers[0].send_receipt.message_id == answers[1].message.message_id
    assert receipt != message


def test_broker_entry_metadata_is_sent_to_clients_that_support_it() -> None:
    plain = connected(settings=Settings(broker_entry_metadata=True))
    able = connected(plain.broker, entry_metadata=True)
    plain.give(producer())
    for client in (plain, able):
        client.give(subscribe(kind=pb.Subscribe.SHARED) + flow(permits=1))
    plain.connection.receive(sent(sequence=0) + sent(sequence=1), NOW)
    messages = [frame for frame in plain.frames if command_type(frame, 0) == BASE.MESSAGE]
    without = [split(message, 0, len(message)) for message in messages]
    (frame,) = able.frames
    parts = split(frame, 0, len(frame))
    raw = frame[parts.broker_entry : parts.broker_entry_end]
    assert pb.BrokerEntryMetadata.FromString(raw).broker_timestamp == NOW
    assert int.from_bytes(frame[parts.broker_entry - 6 : parts.broker_entry - 4], "big") == MAGIC_BROKER_ENTRY
    assert has_valid_checksum(frame, parts)
    assert [each.broker_entry for each in without] == [-1]


def test_delayed_delivery_schedules_a_wake_up() -> None:
    client = connected()
    client.give(producer() + subscribe() + flow())
    answers = client.give(sent(deliver_at_time=NOW + 500))
    assert [answer.type for answer in answers] == [BASE.SEND_RECEIPT]
    assert client.wakes[-1] == NOW + 500
    (subscription,) = client.broker.topics[TOPIC].subscriptions.values()
    client.broker.carry_out(subscription, subscription.pump(NOW + 500))
    assert [answer.type for answer in client.take()] == [BASE.MESSAGE]


def test_two_producers_of_one_name() -> None:
    one = connected()
    two = connected(one.broker)
    assert one.give(producer(producer_name="p"))[0].producer_success.producer_name == "p"
    (refused,) = two.give(producer(producer_name="p"))
    assert refused.error.error == pb.PRODUCER_BUSY
    assert refused.error.message == "Producer with name 'p' is already connected to topic"
    assert refused.error.request_id == 101
    one.connection.lost(NOW)
    assert two.give(producer(producer_name="p"))[0].type == BASE.PRODUCER_SUCCESS


def test_a_reconnecting_producer_takes_its_own_place() -> None:
    one = connected()
    named = one.give(producer(epoch=0))[0].producer_success.producer_name
    again = connected(one.broker)
    request = producer(producer_name=named, user_provided_producer_name=False, epoch=1)
    assert again.give(request)[0].type == BASE.PRODUCER_SUCCESS
    with pytest.raises(ProtocolError, match="not attached"):
        one.give(sent())
    one.connection.lost(NOW)
    assert list(one.broker.topics[TOPIC].producers) == [named]


def test_producer_names_are_unique() -> None:
    client = connected()
    answers = client.give(producer(1) + producer(2))
    assert len({answer.producer_success.producer_name for answer in answers}) == 2


def test_a_repeated_request_gets_the_same_response() -> None:
    client = connected()
    answers = client.give(producer() + producer() + subscribe() + subscribe())
    assert [answer.type for answer in answers] == [BASE.PRODUCER_SUCCESS] * 2 + [BASE.SUCCESS] * 2


def test_refuses_a_producer_id_in_use_for_another_topic() -> None:
    client = connected()
    client.give(producer())
    (refused,) = client.give(producer(topic=f"{TOPIC}-other"))
    assert refused.error.error == pb.NOT_ALLOWED_ERROR


def test_the_maximum_delay_is_refused_with_pulsars_text() -> None:
    client = connected(settings=Settings(max_delay_ms=2_000))
    client.give(producer())
    assert client.give(sent(deliver_at_time=NOW + 2_000))[0].type == BASE.SEND_RECEIPT
    (refused,) = client.give(sent(sequence=1, deliver_at_time=NOW + 2_001))
    assert refused.send_error.error == pb.NOT_ALLOWED_ERROR
    assert refused.send_error.message == "Exceeds max allowed delivery delay of 2000 milliseconds"
    assert (refused.send_error.producer_id, refused.send_error.sequence_id) == (1, 1)
    assert client.give(sent(sequence=2))[0].type == BASE.SEND_RECEIPT


def test_a_wrong_checksum_fails_that_message() -> None:
    client = connected()
    client.give(producer())
    broken = bytearray(sent())
    broken[-1] ^= 1
    (refused,) = client.give(bytes(broken))
    assert refused.send_error.error == pb.CHECKSUM_ERROR
    assert client.give(sent(sequence=1))[0].send_receipt.message_id.entry_id == 0


def test_acknowledgements_are_answered_on_request() -> None:
    client = connected()
    client.give(producer() + subscribe() + flow() + sent())
    place = client.broker.topics[TOPIC].id_of(0)
    ack = pb.Ack(consumer_id=1, ack_type=pb.Ack.INDIVIDUAL, message_id=[place])
    assert client.give(command_frame(BASE(type=BASE.ACK, ack=ack))) == []
    ack.request_id = 5
    (done,) = client.give(command_frame(BASE(type=BASE.ACK, ack=ack)))
    assert (done.ack_response.request_id, done.ack_response.HasField("error")) == (5, False)
    ack.ack_type = pb.Ack.CUMULATIVE
    (refused,) = client.give(command_frame(BASE(type=BASE.ACK, ack=ack)))
    assert refused.ack_response.error == pb.NOT_ALLOWED_ERROR
    ack.consumer_id = 9
    (unknown,) = client.give(command_frame(BASE(type=BASE.ACK, ack=ack)))
    assert unknown.ack_response.error == pb.METADATA_ERROR


def test_a_part_of_a_batch_does_not_acknowledge_it() -> None:
    client = connected()
    client.give(producer() + subscribe() + flow() + sent())
    (subscription,) = client.broker.topics[TOPIC].subscriptions.values()
    place = client.broker.topics[TOPIC].id_of(0)
    for ack_set, backlog in (([1], 1), ([0], 0)):
        place.ack_set[:] = ack_set
        ack = pb.Ack(consumer_id=1, ack_type=pb.Ack.INDIVIDUAL, message_id=[place])
        client.give(command_frame(BASE(type=BASE.ACK, ack=ack)))
        assert subscription.backlog == backlog


@pytest.mark.parametrize(
    "request_",
    [
        BASE(type=BASE.CLOSE_PRODUCER, close_producer=pb.CloseProducer(producer_id=9, request_id=7)),
        BASE(type=BASE.CLOSE_CONSUMER, close_consumer=pb.CloseConsumer(consumer_id=9, request_id=7)),
        BASE(type=BASE.UNSUBSCRIBE, unsubscribe=pb.Unsubscribe(consumer_id=9, request_id=7)),
        BASE(type=BASE.SEEK, seek=pb.Seek(consumer_id=9, request_id=7)),
        BASE(
            type=BASE.GET_LAST_MESSAGE_ID,
            get_last_message_id=pb.GetLastMessageId(consumer_id=9, request_id=7),
        ),
        BASE(type=BASE.NEW_TXN, new_txn=pb.NewTxn(request_id=7)),
        BASE(type=BASE.PRODUCER, producer=pb.Producer(topic="a/b", producer_id=1, request_id=7)),
        BASE(
            type=BASE.SUBSCRIBE,
            subscribe=pb.Subscribe(topic="://", subscription="s", consumer_id=1, request_id=7),
        ),
    ],
)
def test_failed_requests_are_answered_under_their_id(request_: pb.BaseCommand) -> None:
    client = connected()
    (refused,) = client.give(command_frame(request_))
    assert refused.type == BASE.ERROR
    assert refused.error.request_id == 7
    assert client.give(command_frame(BASE(type=BASE.PING, ping=pb.Ping())))[0].type == BASE.PONG


def test_commands_without_a_response_are_ignored() -> None:
    client = connected()
    redeliver = pb.RedeliverUnacknowledgedMessages(consumer_id=9)
    command = BASE(type=BASE.REDELIVER_UNACKNOWLEDGED_MESSAGES, redeliver_unacknowledged_messages=redeliver)
    assert client.give(flow(9) + command_frame(command)) == []


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (producer(), "before CONNECT"),
        (connect() + sent(), "not attached"),
        (connect() + producer() + sent()[:-20] + b"\xff" * 20, "metadata up to"),
        (b"GET / HTTP/1.1\r\n\r\n", "expected at most"),
        (b"\0\0\0\4\0\0\0\xff", "command of 255 bytes"),
    ],
)
def test_malformed_input_ends_the_connection(data: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        Client().give(data)


def test_a_token_names_the_principal() -> None:
    settings = Settings(tokens={"secret": "alice"})
    client = Client(settings=settings)
    assert client.give(connect(b"secret", "token"))[0].type == BASE.CONNECTED
    assert client.connection.principal == "alice"


@pytest.mark.parametrize(("token", "method"), [(b"", ""), (b"wrong", "token"), (b"secret", "basic")])
def test_clients_without_the_token_are_refused(token: bytes, method: str) -> None:
    client = Client(settings=Settings(tokens={"secret": "alice"}))
    with pytest.raises(ProtocolError, match="no token"):
        client.give(connect(token, method))
    (refused,) = client.take()
    assert refused.error.error == pb.AUTHENTICATION_ERROR
    assert client.connection.principal is None


def test_a_lost_connection_leaves_nothing_behind() -> None:
    client = connected()
    client.give(producer() + subscribe() + flow())
    client.connection.lost(NOW)
    topic = client.broker.topics[TOPIC]
    assert topic.producers == {}
    assert list(topic.subscriptions["sub"].consumers) == []
    reader = connected(client.broker)
    reader.give(subscribe(kind=pb.Subscribe.EXCLUSIVE, durable=False).replace(b"sub", b"rdr"))
    assert list(topic.subscriptions) == ["sub", "rdr"]
    reader.connection.lost(NOW)
    assert list(topic.subscriptions) == ["sub"]


def test_unsubscribing_needs_a_single_consumer_or_force() -> None:
    one = connected()
    two = connected(one.broker)
    one.give(subscribe())
    two.give(subscribe())
    request = pb.Unsubscribe(consumer_id=1, request_id=7)
    (refused,) = one.give(command_frame(BASE(type=BASE.UNSUBSCRIBE, unsubscribe=request)))
    assert refused.error.message == "Unconnected or shared consumer attempting to unsubscribe"
    request.force = True
    assert one.give(command_frame(BASE(type=BASE.UNSUBSCRIBE, unsubscribe=request)))[0].type == BASE.SUCCESS
    assert [answer.type for answer in two.take()] == [BASE.CLOSE_CONSUMER]
    assert one.broker.topics[TOPIC].subscriptions == {}
