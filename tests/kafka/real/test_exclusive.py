"""What a group gives to one consumer alone stays Kafka's own rule, whatever the policies leave room for."""

import pytest
from tests.kafka.real.conftest import Join, NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import send_with_confluent
from tests.kafka.real.support.families import Family
from tests.kafka.real.support.families.base import settled
from tests.kafka.real.support.gate import Gate
from tests.waiting import until

ROOM = {"max_consumers_per_topic": 5, "max_consumers_per_subscription": 5}


@pytest.mark.longer(but="librdkafka")
@pytest.mark.seed("S1-039")
def test_a_partition_keeps_to_one_consumer_of_a_group(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, family: Family, join: Join
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, **ROOM}]})
    members = [join(family, gate.bootstrap, topic, f"{topic}-group") for _ in range(2)]
    assert [settled(member) for member in members] == ["", ""]
    until(lambda: sorted(member.assigned for member in members) == [0, 1], "one has the partition")
    sent = send_with_confluent(kafka.bootstrap, topic, 20)

    def received() -> list[bytes]:
        return [record.value for member in members for record in member.received]

    until(lambda: len(received()) >= 20, "all records")
    assert received() == [entry.value for entry in sent.sent]
    assert sum(bool(member.received) for member in members) == 1
    assert gate.decisions(topic=topic, action="reject") == []
