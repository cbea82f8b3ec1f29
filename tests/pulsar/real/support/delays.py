"""A fixed delay for some topics, and what must hold of all that comes from them."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.pulsar.real.support.family import Received, Subscription
from tests.pulsar.real.support.gate import Gate

DELAY_MS = 1_500
IN_ORDER = (Subscription.EXCLUSIVE, Subscription.FAILOVER)
"""Subscriptions on which the gate delays, and keeps the order; on the others the broker does."""


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


def assert_not_early(received: Iterable[Received]) -> None:
    """Fail if a delivery came before the delay was over, counted from the publication."""
    early = {one.value[:20]: at for one in received if (at := one.at_ms - one.published_ms) < DELAY_MS}
    assert not early, f"delivered so many ms after their publication: {early}"
