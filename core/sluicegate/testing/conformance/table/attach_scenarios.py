"""Who may attach, and how many."""

from typing import Final

from sluicegate.testing.conformance.scenarios import Ability, Scenario
from sluicegate.testing.conformance.steps import CreateTopic, Leave, Publish, Receive, Subscribe

_PRODUCERS = "max_producers_per_topic"
_SUBSCRIPTIONS = "max_subscriptions_per_topic"
_CONSUMERS = "max_consumers_per_topic"
_OF_SUBSCRIPTION = "max_consumers_per_subscription"

ATTACHING: Final = (
    Scenario(
        name="producers",
        shows=[_PRODUCERS],
        policies={_PRODUCERS: 2},
        steps=[
            Publish(who="a"),
            Publish(who="b"),
            Publish(who="c", refused=_PRODUCERS),
            Publish(who="a"),
        ],
        decisions=[("reject", _PRODUCERS)],
        counts={"producers": 2, "published": 3, "rejected": 1},
    ),
    Scenario(
        name="a producer that leaves makes room",
        shows=[_PRODUCERS],
        policies={_PRODUCERS: 1},
        steps=[
            Publish(who="a"),
            Publish(who="b", refused=_PRODUCERS),
            Leave(who="a"),
            Publish(who="c"),
        ],
        decisions=[("reject", _PRODUCERS)],
        counts={"producers": 1, "published": 2},
        needs=frozenset({Ability.PRODUCERS_LEAVE}),
    ),
    Scenario(
        name="subscriptions, of which joining one makes no other",
        shows=[_SUBSCRIPTIONS],
        policies={_SUBSCRIPTIONS: 1},
        steps=[
            Subscribe(who="a", subscription="one"),
            Subscribe(who="b", subscription="two", refused=_SUBSCRIPTIONS),
            Subscribe(who="c", subscription="one"),
        ],
        decisions=[("reject", _SUBSCRIPTIONS)],
        counts={"consumers": 2, "rejected": 1},
    ),
    Scenario(
        name="consumers of a topic, all subscriptions together",
        shows=[_CONSUMERS],
        policies={_CONSUMERS: 2},
        steps=[
            Subscribe(who="a", subscription="one"),
            Subscribe(who="b", subscription="two"),
            Subscribe(who="c", subscription="one", refused=_CONSUMERS),
        ],
        decisions=[("reject", _CONSUMERS)],
        counts={"consumers": 2, "rejected": 1},
    ),
    Scenario(
        name="consumers of a subscription",
        shows=[_OF_SUBSCRIPTION],
        policies={_OF_SUBSCRIPTION: 1},
        steps=[
            Subscribe(who="a", subscription="one"),
            Subscribe(who="b", subscription="two"),
            Subscribe(who="c", subscription="one", refused=_OF_SUBSCRIPTION),
        ],
        decisions=[("reject", _OF_SUBSCRIPTION)],
        counts={"consumers": 2, "rejected": 1},
    ),
    Scenario(
        name="a consumer that leaves makes room",
        shows=[_CONSUMERS],
        policies={_CONSUMERS: 1},
        steps=[
            Subscribe(who="a"),
            Publish(who="p"),
            Receive(who="a"),
            Subscribe(who="b", refused=_CONSUMERS),
            Leave(who="a"),
            Subscribe(who="c", subscription="two"),
        ],
        decisions=[("reject", _CONSUMERS)],
        counts={"consumers": 1},
    ),
    Scenario(
        name="subscriptions are asked about before consumers",
        shows=[_SUBSCRIPTIONS, _CONSUMERS],
        policies={_SUBSCRIPTIONS: 1, _CONSUMERS: 1},
        steps=[
            Subscribe(who="a", subscription="one"),
            Subscribe(who="b", subscription="two", refused=_SUBSCRIPTIONS),
            Subscribe(who="c", subscription="one", refused=_CONSUMERS),
        ],
        decisions=[("reject", _SUBSCRIPTIONS), ("reject", _CONSUMERS)],
        counts={"consumers": 1},
    ),
    Scenario(
        name="whoever is refused as a consumer has made no subscription",
        shows=[_SUBSCRIPTIONS, _CONSUMERS],
        policies={_SUBSCRIPTIONS: 2, _CONSUMERS: 1},
        steps=[
            Subscribe(who="a", subscription="one"),
            Subscribe(who="b", subscription="two", refused=_CONSUMERS),
            Subscribe(who="c", subscription="three", refused=_CONSUMERS),
        ],
        decisions=[("reject", _CONSUMERS)] * 2,
        counts={"consumers": 1},
    ),
    Scenario(
        name="a topic that is only read",
        shows=["read_only"],
        policies={"read_only": True},
        steps=[Publish(who="a", refused="read_only")],
        decisions=[("reject", "read_only")],
        counts={"producers": 0, "published": 0},
    ),
    Scenario(
        name="a topic that is only written",
        shows=["write_only"],
        policies={"write_only": True},
        steps=[Publish(who="a"), Subscribe(who="c", refused="write_only")],
        decisions=[("reject", "write_only")],
        counts={"producers": 1, "published": 1, "consumers": 0},
    ),
    Scenario(
        name="ids of clients that are not allowed",
        shows=["client_id_pattern"],
        policies={"client_id_pattern": ["team-a-*"]},
        steps=[Publish(who="team-b-1", refused="client_id_pattern")],
        decisions=[("reject", "client_id_pattern")],
        counts={"producers": 0, "published": 0},
    ),
    Scenario(
        name="ids of clients that are allowed",
        shows=["client_id_pattern"],
        policies={"client_id_pattern": ["team-a-*"]},
        steps=[
            Subscribe(who="team-b-1", refused="client_id_pattern"),
            Subscribe(who="team-a-2"),
            Publish(who="team-a-1"),
            Receive(who="team-a-2"),
        ],
        decisions=[("reject", "client_id_pattern")],
        counts={"producers": 1, "consumers": 1, "published": 1},
        needs=frozenset({Ability.CLIENT_ID}),
    ),
    Scenario(
        name="creating topics",
        shows=["allow_topic_creation"],
        policies={"allow_topic_creation": False},
        steps=[CreateTopic(who="a", refused="allow_topic_creation")],
        decisions=[("reject", "allow_topic_creation")],
        needs=frozenset({Ability.CREATE_TOPIC}),
    ),
    Scenario(
        name="partitions of topics that are created",
        shows=["max_partitions"],
        policies={"max_partitions": 3},
        steps=[
            CreateTopic(who="a", partitions=4, refused="max_partitions"),
            CreateTopic(who="a", partitions=3),
        ],
        decisions=[("reject", "max_partitions")],
        needs=frozenset({Ability.CREATE_TOPIC}),
    ),
    Scenario(
        name="connection rate",
        shows=["connection_rate_limit"],
        broker={"connection_rate_limit": "2/s"},
        steps=[
            Publish(who="a"),
            Publish(who="b"),
            Publish(who="c"),
            Publish(who="d"),
            Publish(who="e"),
        ],
        counts={"producers": 5, "published": 5, "rejected": 0},
    ),
)
