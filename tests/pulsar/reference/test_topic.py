"""A topic's log, its bounds, names and policies."""

import pytest
from tests.pulsar.reference.lab import NOW, TOPIC

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.reference.broker import Broker, Settings
from sluicegate_pulsar.reference.broker_errors import RefusedError
from sluicegate_pulsar.reference.policies import DelayedDelivery
from sluicegate_pulsar.reference.topic import Topic
from sluicegate_pulsar.reference.topic_names import Name, parse_name


def broker(settings: Settings | None = None) -> Broker:
    return Broker(settings or Settings(), lambda subscription, at_ms: None)


def publish(topic: Topic, count: int = 1, messages: int = 1, published: int = NOW) -> None:
    for _ in range(count):
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=published)
        if messages > 1:
            metadata.num_messages_in_batch = messages
        topic.publish(b"", metadata, messages, NOW)


def place(ledger: int, entry: int) -> pb.MessageIdData:
    return pb.MessageIdData(ledger_id=ledger % (1 << 64), entry_id=entry % (1 << 64))


def test_message_ids_beyond_the_ends_are_clamped() -> None:
    topic = broker().topic(TOPIC)
    publish(topic, 3)
    latest = (1 << 63) - 1
    for wanted, expected in (
        (place(-1, -1), 0),
        (place(latest, latest), 3),
        (place(topic.ledger, 1), 1),
        (place(topic.ledger, -1), 0),
        (place(topic.ledger, 77), 3),
        (place(topic.ledger - 1, 2), 0),
        (place(topic.ledger + 1, 0), 3),
    ):
        assert topic.entry_at(wanted) == expected


def test_finds_entries_by_publish_time() -> None:
    topic = broker().topic(TOPIC)
    for published in (10, 20, 30):
        publish(topic, published=published)
    assert [topic.entry_after(time_ms) for time_ms in (0, 10, 11, 30, 31)] == [0, 0, 1, 2, 3]


def test_last_id_of_a_batch_is_its_last_message() -> None:
    topic = broker().topic(TOPIC)
    assert topic.last_id().entry_id == (1 << 64) - 1
    publish(topic)
    assert topic.last_id().batch_index == -1
    publish(topic, messages=4)
    last = topic.last_id()
    assert (last.ledger_id, last.entry_id, last.batch_index) == (topic.ledger, 1, 3)
    assert [entry.first_index for entry in topic.log] == [0, 1]


def test_schemas_get_versions() -> None:
    topic = broker().topic(TOPIC)
    one, two = (pb.Schema(name=name, schema_data=b"{}") for name in ("one", "two"))
    versions = [topic.schema_version(schema) for schema in (one, two, one)]
    assert versions[0] == versions[2] != versions[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", Name(TOPIC, "public/default", TOPIC, -1)),
        ("public/default/orders", Name(TOPIC, "public/default", TOPIC, -1)),
        (f"{TOPIC}-partition-12", Name(f"{TOPIC}-partition-12", "public/default", TOPIC, 12)),
        (
            f"{TOPIC}-partition-x",
            Name(f"{TOPIC}-partition-x", "public/default", f"{TOPIC}-partition-x", -1),
        ),
        ("non-persistent://a/b/c", Name("non-persistent://a/b/c", "a/b", "non-persistent://a/b/c", -1)),
    ],
)
def test_names(text: str, expected: Name) -> None:
    assert parse_name(text) == expected


@pytest.mark.parametrize(
    "text", ["a/b", "http://a/b/c", "persistent://a/b", "persistent://a//c", "persistent://a/b/c/d", "", "/"]
)
def test_invalid_names(text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        parse_name(text)
    assert refused.value.code == pb.INVALID_TOPIC_NAME


def test_partitions_are_topics_but_their_parent_is_not() -> None:
    state = broker()
    state.make_partitions(parse_name(TOPIC), 2)
    assert sorted(state.topics) == [f"{TOPIC}-partition-0", f"{TOPIC}-partition-1"]
    for wrong in (TOPIC, f"{TOPIC}-partition-2"):
        with pytest.raises(RefusedError):
            state.topic(wrong)
    with pytest.raises(RefusedError, match="already exists"):
        state.make_partitions(parse_name(TOPIC), 3)


def test_topic_delays_override_namespace_delays() -> None:
    state = broker(Settings(tick_ms=70, max_delay_ms=9))
    topic = state.topic(TOPIC)
    assert (topic.delay.active, topic.delay.tick_ms, topic.delay.max_delay_ms) == (True, 70, 9)
    state.namespace_delays["public/default"] = DelayedDelivery(False, 20, 5)
    state.delays_changed()
    assert (topic.delay.active, topic.delay.tick_ms, topic.delay.max_delay_ms) == (False, 20, 5)
    state.topic_delays[TOPIC] = DelayedDelivery(True, 0, 7)
    state.delays_changed()
    assert (topic.delay.active, topic.delay.tick_ms, topic.delay.max_delay_ms) == (True, 70, 7)
    assert state.topic("later").delay.max_delay_ms == 5
