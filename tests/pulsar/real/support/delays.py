"""A fixed delay for some topics, and what must hold of all that comes from them."""

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.pulsar.real.support.admin import Admin
from tests.pulsar.real.support.family import (
    ANSWER_S,
    Family,
    Form,
    Received,
    Receiving,
    Subscription,
    collect,
    numbered,
)
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import number_of
from tests.waiting import until

DELAY_MS = 1_500
IN_ORDER = (Subscription.EXCLUSIVE, Subscription.FAILOVER)
"""Subscriptions on which the gate delays, and keeps the order; on the others the broker does."""


@dataclass(frozen=True, slots=True)
class Case:
    """How messages are produced to a topic with a fixed delay."""

    form: Form
    settings: dict[str, Any] = field(default_factory=dict)
    pad: int = 0
    count: int = 20
    deliver_after_ms: int | None = None


def fixed(gate: Gate, topics: Iterable[str], **broker: object) -> None:
    """Fix the delay of these topics.

    :param broker: policies of the broker's level.
    """
    named = [{"name": topic, "fixed_delivery_delay": f"{DELAY_MS}ms"} for topic in topics]
    gate.apply({"broker": broker, "topics": named})


def at_once(scenario: Callable[..., None], cases: Iterable[tuple[Any, ...]]) -> None:
    """Run what mostly waits side by side, once for each tuple of arguments; the first failure is raised."""
    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(scenario, *case) for case in cases]:
            done.result()


def deliver(gate: Gate, admin: Admin, topic: str, family: Family, case: Case) -> None:
    """Produce to a topic with a fixed delay: all subscriptions and a reader must get all, once and not early.

    :param admin: the broker's own admin API.
    """
    consumers: dict[str, Receiving] = {
        kind: family.consume(gate.service_url, topic, kind, kind) for kind in Subscription
    }
    consumers["Reader"] = family.read(gate.service_url, topic)
    values = numbered(case.count, pad=case.pad)
    producer = family.produce(
        gate.service_url,
        topic,
        values,
        form=case.form,
        settings=case.settings,
        keys=["a", "b"],
        properties={"p": "q"},
        deliver_after_ms=case.deliver_after_ms,
    )
    assert all(one.entry for one in producer.close())
    for consumer in consumers.values():
        collect(consumer, len(values), 2 * ANSWER_S)
    # Acknowledged is what will not come again.
    until(lambda: _backlogs(admin, topic) == dict.fromkeys(Subscription, 0), "all is acknowledged")
    for kind, consumer in consumers.items():
        consumer.close()
        _expect(consumer.received, values, in_order=kind in IN_ORDER or kind == "Reader")


def assert_not_early(received: Iterable[Received]) -> None:
    """Fail if a delivery came before the delay was over, counted from the publication."""
    early = {one.value[:20]: at for one in received if (at := one.at_ms - one.published_ms) < DELAY_MS}
    assert not early, f"delivered so many ms after their publication: {early}"


def _backlogs(admin: Admin, topic: str) -> dict[str, int]:
    """What is not acknowledged, by subscription; a reader's has a name that was made up."""
    told = admin.stats(topic)["subscriptions"]
    return {name: one["msgBacklog"] for name, one in told.items() if name in list(Subscription)}


def _expect(received: list[Received], values: list[str], *, in_order: bool) -> None:
    """All values once, not early, as they were sent."""
    found = [one.value for one in received]
    assert Counter(found) == Counter(values)
    if in_order:
        assert found == values
    assert_not_early(received)
    for one in received:
        assert one.key == "ab"[number_of(one.value) % 2]
        assert one.properties == {"p": "q"}
