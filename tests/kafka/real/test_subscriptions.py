"""Limits on subscriptions while the gateway cannot learn which exist, and for groups without members."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.kafka.real.conftest import Join, NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import make_group
from tests.kafka.real.support.families import Family, Member
from tests.kafka.real.support.families.base import settled
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.upstream import MoodyUpstream, hang_up
from tests.waiting import LONG_S

POLICY = "max_subscriptions_per_topic"
GROUP_FULL = {
    "java": "GroupMaxSizeReachedException",
    "librdkafka": "GROUP_MAX_SIZE_REACHED",
    "aiokafka": "GroupAuthorizationFailedError",
}
COMMIT_REFUSED = {
    "java": "KafkaException: Unexpected error in commit: The group has reached its maximum size",
    "librdkafka": "GROUP_MAX_SIZE_REACHED",
    "aiokafka": "GroupAuthorizationFailedError",
}
PROTOCOLS = [
    ("aiokafka", "classic"),
    ("librdkafka", "classic"),
    ("librdkafka", "consumer"),
    ("java", "classic"),
    ("java", "consumer"),
]
_OWN = b"sluicegate"
"""The client id under which the gate asks its own requests."""


def committed(bootstrap: str, group: str, topic: str) -> int:
    """What a group has committed for partition 0; -1001 for nothing."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        found: int = consumer.committed([TopicPartition(topic, 0)], timeout=LONG_S)[0].offset
        return found
    finally:
        consumer.close()


# -- groups that cannot be listed ---------------------------------------------------------------------


@pytest.fixture
def upstream(kafka: KafkaBroker) -> Iterator[MoodyUpstream]:
    """The broker, but it hangs up on the gateway itself; clients go through."""
    with MoodyUpstream(kafka.bootstrap) as upstream:
        upstream.on(_OWN, hang_up)
        yield upstream


@pytest.fixture
def unknowing(upstream: MoodyUpstream, tmp_path: Path) -> Iterator[Gate]:
    """A gateway that cannot learn which groups exist."""
    with Gate(tmp_path / "unknowing", upstream.bootstrap) as gate:
        yield gate


@pytest.mark.longer(but="librdkafka")
@pytest.mark.seed("X-02", "S1-102")
@pytest.mark.parametrize(("family", "protocol"), PROTOCOLS, indirect=["family"])
def test_while_groups_cannot_be_listed_on_unknown_decides(
    kafka: KafkaBroker,
    unknowing: Gate,
    upstream: MoodyUpstream,
    new_topic: NewTopic,
    family: Family,
    join: Join,
    protocol: str,
) -> None:
    topics = {way: new_topic(way, partitions=2) for way in ("pause", "open", "last")}
    for topic in topics.values():
        make_group(kafka.bootstrap, f"{topic}-there-before", topic)
    unknowing.apply(
        {"topics": [{"name": name, POLICY: 1, "on_unknown": {POLICY: way}} for way, name in topics.items()]}
    )
    settings = {} if protocol == "classic" else {"group_protocol": "consumer"}

    def joins(way: str, group: str) -> Member:
        return join(family, unknowing.bootstrap, topics[way], f"{topics[way]}-{group}", **settings)

    waiting = [joins("pause", group) for group in ("there-before", "new")]
    # Nothing is known, so nothing is too much.
    assert [settled(joins("open", group)) for group in ("one", "two")] == ["", ""]
    # What came through the gateway is known.
    assert settled(joins("last", "one")) == ""
    assert settled(joins("last", "two")).startswith(full(family, protocol))

    rows = unknowing.decided(topic=topics["last"], action="reject")  # librdkafka goes on trying
    assert {(row["reason"], row["current"], row["limit"]) for row in rows} == {("limit_reached", 1, 1)}
    assert unknowing.decisions(topic=topics["open"], action="reject") == []
    # They have tried, and were told nothing that would make them give up.
    rows = unknowing.decided(2, topic=topics["pause"], action="reject")
    assert [(member.assigned, member.errors) for member in waiting] == [(-1, [])] * 2
    assert {row["reason"] for row in rows} == {"precondition"}
    unknowing.eventually(
        lambda: unknowing.metric("sluicegate_broker_events_total", event="group_listing_failed") > 0,
        "it is counted",
    )

    upstream.off(_OWN)
    known, excess = waiting
    assert settled(known) == ""
    assert settled(excess).startswith(full(family, protocol))


def full(family: Family, protocol: str) -> str:
    """How a client reports that there are too many groups."""
    return "_FATAL" if (family.name, protocol) == ("librdkafka", "consumer") else GROUP_FULL[family.name]


# -- groups without members ---------------------------------------------------------------------------


@pytest.mark.seed("S1-002", "S1-034", "S1-043")
def test_offsets_of_one_group_too_many_are_refused(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    """Who only commits makes a subscription, too; one that is deleted makes room."""
    topic = new_topic()
    old, new = f"{topic}-old", f"{topic}-new"
    gate.apply({"topics": [{"name": topic, POLICY: 1}]})
    assert family.commit(gate.bootstrap, topic, old, 1) == ""
    assert family.commit(gate.bootstrap, topic, new, 2).startswith(COMMIT_REFUSED[family.name])
    assert committed(kafka.bootstrap, new, topic) == -1001
    rows = gate.decided(topic=topic, action="reject")
    assert {(row["policy"], row["operation"], row["subscription"]) for row in rows} == {
        (POLICY, "create_subscription", new)
    }
    assert family.commit(gate.bootstrap, topic, old, 3) == "", "it is there already"
    assert committed(kafka.bootstrap, old, topic) == 3

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_consumer_groups([old])[old].result(LONG_S)
    gate.eventually(lambda: family.commit(gate.bootstrap, topic, new, 4) == "", "there is room again")
    assert committed(kafka.bootstrap, new, topic) == 4
    assert family.commit(gate.bootstrap, topic, old, 5).startswith(COMMIT_REFUSED[family.name])
