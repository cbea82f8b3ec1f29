"""The table: the same call, the same decision, the same answer, through interceptors and the proxy."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.danube.conformance.actors import Actors
from tests.danube.conformance.doors import DOORS
from tests.danube.conformance.refusals import (
    connection_rate,
    consumers_of_subscription,
    consumers_of_topic,
    producers,
    publish_rate,
    size,
    subscriptions,
)
from tests.danube.conformance.steps import (
    TOPIC,
    Case,
    acknowledge,
    attach,
    attach_until,
    gets_part,
    leave,
    on_topic,
    publish,
    publish_until,
    receive,
    receives_nothing,
    silence,
    subscribe,
)

KIB = 1024
OTHER = "/default/other"
FAR = "/far/away"

COUNTS = (
    pytest.param(
        Case(
            "producers",
            on_topic(max_producers_per_topic=2),
            [attach("a"), attach("b"), attach("c", producers(2)), publish("a"), publish("b")],
            decisions=[("reject", "max_producers_per_topic")],
        ),
        marks=pytest.mark.seed("S1-001", "S1-031", "S1-041", "S1-100", "S1-103", "S1-104"),
    ),
    pytest.param(
        Case(
            "a known producer is no new one",
            on_topic(max_producers_per_topic=1),
            [attach("a"), attach("a"), attach("b", producers(1)), publish("a")],
            decisions=[("reject", "max_producers_per_topic")],
        ),
        marks=pytest.mark.seed("S1-030"),
    ),
    pytest.param(
        Case(
            "a producer of whom nothing is heard gives its place to another, and must attach again itself",
            on_topic(max_producers_per_topic=1),
            [
                attach("a"),
                attach("b", producers(1)),
                silence(),
                attach("b"),
                publish("a", replace(producers(1), code="NOT_FOUND")),
                publish("b"),
            ],
            entry={"ghost_release": "30min"},
        ),
        marks=pytest.mark.seed("S1-043"),
    ),
    pytest.param(
        Case(
            "subscriptions",
            on_topic(max_subscriptions_per_topic=2),
            [
                attach("p"),
                subscribe("a", "one"),
                subscribe("b", "two"),
                subscribe("c", "three", subscriptions(2)),
            ],
            decisions=[("reject", "max_subscriptions_per_topic")],
        ),
        marks=pytest.mark.seed("S1-002", "S1-034", "S1-100"),
    ),
    pytest.param(
        Case(
            "joining a subscription makes no new one",
            on_topic(max_subscriptions_per_topic=1),
            [
                attach("p"),
                subscribe("a", "one"),
                subscribe("b", "two", subscriptions(1)),
                subscribe("c", "one"),
            ],
            decisions=[("reject", "max_subscriptions_per_topic")],
        ),
        marks=pytest.mark.seed("S1-034"),
    ),
    pytest.param(
        Case(
            "consumers of a topic, all subscriptions together",
            on_topic(max_consumers_per_topic=2),
            [
                attach("p"),
                subscribe("a", "one"),
                subscribe("b", "two"),
                subscribe("c", "one", consumers_of_topic(2)),
            ],
            decisions=[("reject", "max_consumers_per_topic")],
        ),
        marks=pytest.mark.seed("S1-003", "S1-037", "S1-100"),
    ),
    pytest.param(
        Case(
            "consumers of a subscription",
            on_topic(max_consumers_per_subscription=1),
            [
                attach("p"),
                subscribe("a", "one"),
                subscribe("b", "two"),
                subscribe("c", "one", consumers_of_subscription(1, "one")),
            ],
            decisions=[("reject", "max_consumers_per_subscription")],
        ),
        marks=pytest.mark.seed("S1-004", "S1-038", "S1-100"),
    ),
    pytest.param(
        Case(
            "a consumer that leaves makes room",
            on_topic(max_consumers_per_topic=1),
            [
                attach("p"),
                subscribe("a", "one"),
                publish("p"),
                receive("a", 1),
                subscribe("b", "one", consumers_of_topic(1)),
                leave("a"),
                subscribe("b", "one", eventually=True),
            ],
        ),
        marks=pytest.mark.seed("S1-043"),
    ),
    pytest.param(
        Case(
            "subscriptions are asked about first, then the topic's consumers, then the subscription's",
            on_topic(
                max_subscriptions_per_topic=1, max_consumers_per_topic=1, max_consumers_per_subscription=1
            ),
            [
                attach("p"),
                subscribe("a", "one"),
                subscribe("b", "two", subscriptions(1)),
                subscribe("b", "one", consumers_of_topic(1)),
            ],
            decisions=[("reject", "max_subscriptions_per_topic"), ("reject", "max_consumers_per_topic")],
        ),
        marks=pytest.mark.seed("S1-040"),
    ),
    pytest.param(
        Case(
            "whoever is refused as a consumer has made no subscription",
            on_topic(max_subscriptions_per_topic=2, max_consumers_per_topic=1),
            [
                attach("p"),
                subscribe("a", "one"),
                subscribe("b", "two", consumers_of_topic(1)),
                subscribe("c", "three", consumers_of_topic(1)),
                subscribe("d", "four", consumers_of_topic(1)),
            ],
            decisions=[("reject", "max_consumers_per_topic")] * 3,
        ),
        marks=pytest.mark.seed("S1-040"),
    ),
)

SIZES = (
    pytest.param(
        Case(
            "message size",
            on_topic(max_message_size="4KiB"),
            [
                attach("a"),
                publish("a", size=4 * KIB),
                publish("a", size(4 * KIB, 4 * KIB + 1), size=4 * KIB + 1),
            ],
            decisions=[("reject", "max_message_size")],
        ),
        marks=pytest.mark.seed("S1-008", "S1-050", "S1-051", "S1-101", "S1-103"),
    ),
    pytest.param(
        Case(
            "size comes before rates, and a message that is too large takes nothing from them",
            on_topic(max_message_size="1KiB", max_publish_rate="1/s", burst_seconds=2),
            [
                attach("a"),
                publish("a", size(KIB, 2 * KIB), size=2 * KIB),
                publish("a", size(KIB, 2 * KIB), size=2 * KIB),
                publish("a", size(KIB, 2 * KIB), size=2 * KIB),
                publish("a", times=2),
            ],
            decisions=[("reject", "max_message_size")] * 3,
        ),
        marks=pytest.mark.seed("S1-052"),
    ),
    pytest.param(
        Case(
            "0 is unlimited",
            {"broker": {"max_message_size": "1KiB", "max_producers_per_topic": 1}}
            | on_topic(max_message_size=0, max_producers_per_topic=0),
            [attach("a"), attach("b"), publish("b", size=64 * KIB)],
            decisions=[],
        ),
        marks=pytest.mark.seed("S1-009"),
    ),
)

RATES = (
    pytest.param(
        Case(
            "publish rate",
            on_topic(max_publish_rate="1/s", burst_seconds=3),
            [attach("a"), publish_until("a", 3, publish_rate(1, "messages/s", "max_publish_rate"))],
            decisions=[("reject", "max_publish_rate")],
        ),
        marks=pytest.mark.seed("S1-005", "S1-062", "S1-100"),
    ),
    pytest.param(
        Case(
            "publish rate in bytes",
            on_topic(max_publish_rate_bytes="1000B/s", burst_seconds=3),
            [
                attach("a"),
                publish_until("a", 3, publish_rate(1000, "bytes/s", "max_publish_rate_bytes"), size=1000),
            ],
            decisions=[("reject", "max_publish_rate_bytes")],
        ),
        marks=pytest.mark.seed("S1-011"),
    ),
    pytest.param(
        Case(
            "publish rate, waiting",
            on_topic(max_publish_rate="10/s", burst_seconds=0.2, on_limit={"max_publish_rate": "delay"}),
            [attach("a"), publish("a", times=5, at_least_s=0.28)],
        ),
        marks=pytest.mark.seed("S1-005"),
    ),
    Case(
        "one producer's rate is all producers' rate",
        on_topic(max_publish_rate="10/s", burst_seconds=0.2, on_limit={"max_publish_rate": "delay"}),
        [attach("a"), attach("b"), publish("a", times=2), publish("b", times=3, at_least_s=0.28)],
    ),
    pytest.param(
        Case(
            "dispatch rate, reliable",
            on_topic(max_dispatch_rate="10/s", burst_seconds=0.2),
            [
                attach("a"),
                subscribe("c", "one"),
                publish("a", times=5),
                receive("c", 5, at_least_s=0.28),
                receives_nothing("c"),
            ],
        ),
        marks=pytest.mark.seed("S1-006", "S1-071", "S1-076"),
    ),
    pytest.param(
        Case(
            "dispatch rate of a subscription, each on its own",
            on_topic(max_subscription_dispatch_rate="10/s", burst_seconds=0.2),
            [
                attach("a"),
                subscribe("c", "one"),
                subscribe("d", "two"),
                publish("a", times=5),
                receive("c", 5, at_least_s=0.28),
                receive("d", 5),
            ],
        ),
        marks=pytest.mark.seed("S1-007", "S1-080", "S1-081"),
    ),
    pytest.param(
        Case(
            "both dispatch rates hold, the slower one shows",
            on_topic(max_dispatch_rate="1k/s", max_subscription_dispatch_rate="10/s", burst_seconds=0.2),
            [attach("a"), subscribe("c", "one"), publish("a", times=5), receive("c", 5, at_least_s=0.28)],
        ),
        marks=pytest.mark.seed("S1-082"),
    ),
    pytest.param(
        Case(
            "dispatch rate, not reliable, dropping",
            on_topic(max_dispatch_rate="1/s", burst_seconds=2, on_limit={"max_dispatch_rate": "drop"}),
            [
                attach("a", reliable=False),
                subscribe("c", "one"),
                receives_nothing("c"),
                publish("a", times=20),
                gets_part("c", of=20, at_least=2),
            ],
        ),
        marks=pytest.mark.seed("S1-070"),
    ),
    pytest.param(
        Case(
            "dropping is for what need not arrive: reliable messages wait instead",
            on_topic(max_dispatch_rate="10/s", burst_seconds=0.2, on_limit={"max_dispatch_rate": "drop"}),
            [
                attach("a"),
                subscribe("c", "one"),
                publish("a", times=5),
                receive("c", 5, at_least_s=0.28),
            ],
        ),
        marks=pytest.mark.seed("S1-071"),
    ),
    pytest.param(
        Case(
            "connection rate",
            {"broker": {"connection_rate_limit": "2/s"}},
            [attach("a"), attach("b"), attach("c", at_least_s=0.45)],
        ),
        marks=pytest.mark.seed("S1-091"),
    ),
    pytest.param(
        Case(
            "connection rate, longer than calls are held",
            {"broker": {"connection_rate_limit": "1/s"}},
            [attach_until("a", connection_rate(1))],
            entry={"max_hold": "50ms"},
        ),
        marks=pytest.mark.seed("S1-091"),
    ),
)

DELIVERY = (
    pytest.param(
        Case(
            "unacknowledged messages",
            on_topic(max_unacked_messages_per_consumer=2),
            [
                attach("a"),
                subscribe("c", "one"),
                publish("a", times=5),
                receive("c", 2),
                receives_nothing("c"),
                acknowledge("c", 1),
                receive("c", 1),
                receives_nothing("c"),
                acknowledge("c", 2),
                receive("c", 2),
            ],
        ),
        marks=pytest.mark.seed("S1-090"),
    ),
    pytest.param(
        Case(
            "unacknowledged messages of one consumer do not hold another",
            on_topic(max_unacked_messages_per_consumer=1),
            [
                attach("a"),
                subscribe("c", "one"),
                subscribe("d", "two"),
                publish("a", times=1),
                receive("c", 1),
                receive("d", 1),
                publish("a", times=1),
                receives_nothing("c"),
                acknowledge("d", 1),
                receive("d", 1),
            ],
        ),
        marks=pytest.mark.seed("S1-090"),
    ),
    Case(
        "fixed delay",
        on_topic(fixed_delivery_delay="600ms"),
        [
            attach("a"),
            subscribe("c", "one"),
            receives_nothing("c"),
            publish("a", times=3),
            receive("c", 3, older_s=0.6),
        ],
    ),
)

LEVELS = (
    pytest.param(
        Case(
            "topic over namespace over broker, field by field",
            {
                "broker": {"max_message_size": "1KiB", "max_producers_per_topic": 1},
                "namespaces": [{"name": "default", "max_message_size": "2KiB"}],
                "topics": [{"name": TOPIC, "max_message_size": "3KiB"}],
            },
            [
                attach("a"),
                attach("b", producers(1, "broker")),
                publish("a", size(3 * KIB, 3 * KIB + 1), size=3 * KIB + 1),
                publish("a", size=3 * KIB),
                attach("x", topic=OTHER),
                publish("x", size(2 * KIB, 2 * KIB + 1, "namespace", OTHER), size=2 * KIB + 1),
                attach("y", topic=FAR),
                publish("y", size(KIB, KIB + 1, "broker", FAR), size=KIB + 1),
                attach("z", producers(1, "broker", FAR), topic=FAR),
            ],
        ),
        marks=pytest.mark.seed("S1-010", "S1-020", "S1-023", "S1-122"),
    ),
    Case(
        "a partition has the policies of its topic",
        on_topic(max_producers_per_topic=1),
        [
            attach("a-0", topic=f"{TOPIC}-part-0"),
            attach("a-1", topic=f"{TOPIC}-part-1"),
            attach("b-0", producers(1, topic=f"{TOPIC}-part-0"), topic=f"{TOPIC}-part-0"),
        ],
    ),
    Case(
        "an exempt principal skips counts and rates, not the size",
        on_topic(max_producers_per_topic=1, max_publish_rate="1/s", max_message_size="1KiB"),
        [
            # A name is worth something once the broker has accepted its token.
            attach("x", topic=OTHER, principal="admin"),
            attach("a"),
            attach("b", producers(1), principal="somebody"),
            attach("b", principal="admin"),
            publish("b", times=5),
            publish("b", size(KIB, KIB + 1), size=KIB + 1),
        ],
        entry={"exempt": {"principals": ["admin"]}},
    ),
    pytest.param(
        Case(
            "observed only: recorded, not applied",
            on_topic(
                max_producers_per_topic=1,
                max_message_size="1KiB",
                max_publish_rate="1/s",
                mode="observe",
            ),
            [attach("a"), attach("b"), publish("b", size=2 * KIB), publish("b", times=3)],
        ),
        marks=pytest.mark.seed("S1-144"),
    ),
)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", [*COUNTS, *SIZES, *RATES, *DELIVERY, *LEVELS], ids=lambda case: case.name)
async def test_a_policy_has_the_same_effect_on_every_access_path(
    case: Case, door: str, tmp_path: Path
) -> None:
    async with DOORS[door](case, tmp_path) as opened:
        actors = Actors(opened.channel, opened.state, opened.tick)
        try:
            for step in case.steps:
                await actors.carry_out(step)
        finally:
            await actors.close()
    if case.decisions is not None:
        found = [(decision.action.value, decision.reasons[0].policy) for decision in opened.sink.decisions]
        assert found == list(case.decisions)
