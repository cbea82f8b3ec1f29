"""A subscription that is Pulsar's own to keep to one consumer, whatever the policies leave room for."""

import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.family import Family, RefusedError, Subscription, collect, numbered
from tests.pulsar.real.support.gate import Gate

ROOM = {"max_consumers_per_topic": 5, "max_consumers_per_subscription": 5}


@pytest.mark.seed("S1-039")
def test_an_exclusive_subscription_keeps_to_one_consumer(
    gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, **ROOM}]})
    first = family.consume(gate.service_url, topic, "mine", Subscription.EXCLUSIVE)
    with pytest.raises(RefusedError) as refused:
        family.consume(gate.service_url, topic, "mine", Subscription.EXCLUSIVE)
    assert "ConsumerBusy" in refused.value.error
    assert "sluicegate" not in refused.value.text
    assert gate.decisions(topic=topic, action="reject") == []
    # The one that Pulsar refused has no place: as many as the policy leaves room for get in elsewhere.
    others = [family.consume(gate.service_url, topic, "shared") for _ in range(4)]
    family.produce(gate.service_url, topic, numbered(3)).close()
    assert [one.value for one in collect(first, 3)] == numbered(3)
    for consumer in (first, *others):
        consumer.close()
    family.consume(gate.service_url, topic, "mine", Subscription.EXCLUSIVE).close()
