"""Consumers that leave while messages are withheld for a fixed delay: others get those messages."""

from collections import Counter

import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.admin import Admin
from tests.pulsar.real.support.delays import IN_ORDER, assert_not_early, at_once, fixed
from tests.pulsar.real.support.family import Family, Received, Subscription, collect, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.raw import RawClient
from tests.waiting import until

from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand

KINDS = [Subscription.EXCLUSIVE, Subscription.SHARED, Subscription.FAILOVER, Subscription.KEY_SHARED]
"""In the order of their numbers on the wire."""


@pytest.mark.longer(but="python")
@pytest.mark.seed("S2-024", "S2-027")
@pytest.mark.parametrize("crashes", [False, True], ids=["closes", "crashes"])
def test_a_consumer_leaves_while_messages_are_withheld(
    gate: Gate, admin: Admin, new_topic: NewTopic, family: Family, crashes: bool
) -> None:
    topics = {new_topic(): kind for kind in KINDS}
    fixed(gate, topics)

    def scenario(topic: str, kind: Subscription) -> None:
        values = numbered(10)
        if crashes:
            raw = RawClient(gate.bootstrap)
            assert not raw.subscribe(topic, "one", kind=KINDS.index(kind)).HasField("error")
            raw.send(permits(1_000))
        else:
            first = family.consume(gate.service_url, topic, "one", kind)
        family.produce(gate.service_url, topic, values, keys=["a", "b"]).close()
        if kind in IN_ORDER:  # for the others it is the broker that withholds
            until(lambda: given(admin, topic) >= len(values), "the gate has all messages")
        before: list[Received] = []
        if crashes:
            raw.close()
            until(lambda: not consumers(admin, topic), "the broker has noticed")
        else:
            first.close()
            before = first.received
        second = family.consume(gate.service_url, topic, "one", kind)
        collect(second, len(values) - len(before))
        second.close()
        # On a busy machine the first may have got some, when they were due.
        assert_not_early([*before, *second.received])
        found = [one.value for one in (*before, *second.received)]
        assert Counter(found) == Counter(values)
        assert kind not in IN_ORDER or found == values

    at_once(scenario, topics.items())


def permits(count: int) -> BaseCommand:
    command = BaseCommand(type=BaseCommand.FLOW)
    command.flow.consumer_id = 1
    command.flow.message_permits = count
    return command


def given(admin: Admin, topic: str) -> int:
    """How many messages the broker has sent to the subscription's consumers."""
    found: int = admin.stats(topic)["subscriptions"]["one"]["msgOutCounter"]
    return found


def consumers(admin: Admin, topic: str) -> list[object]:
    found: list[object] = admin.stats(topic)["subscriptions"]["one"]["consumers"]
    return found
