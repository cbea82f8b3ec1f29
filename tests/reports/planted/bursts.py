"""Bursts that a mean hides, and rates that are a little off, with a gate's log and without one."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.reports.planted.book import SECOND, START, Book, Message, asked, bucket, holding

_PUBLISH = "max_publish_rate"
_RATE, _LENGTH_S = 100, 60
_BURST_AT_S, _BURST_US = 20, 300_000
Plant = Callable[[Book, str], None]


def at_once(count: int) -> list[Message]:
    """So many within 300 ms, and before and after them as few more as keep the mean at the limit."""
    even = bucket(asked(1.5 * _RATE, _LENGTH_S), _RATE, _RATE)
    begin_us = _BURST_AT_S * SECOND
    quiet_us = begin_us + count * SECOND // _RATE
    kept = [m for m in even if not begin_us <= m.at_us < quiet_us]
    burst = [Message(100_000 + n, begin_us + n * _BURST_US // count) for n in range(count)]
    ordered = sorted([*kept, *burst], key=lambda m: m.at_us)
    return [replace(m, number=number) for number, m in enumerate(ordered)]


def at_share(share: float) -> list[Message]:
    """The rate times a share, with the burst as it should be, of clients that ask for half as much again."""
    return bucket(asked(1.5 * _RATE, _LENGTH_S), _RATE * share, _RATE)


def trial(messages: Callable[[], list[Message]], door: str = "proxy", **changes: Any) -> Plant:
    """An arm of its own; only a gate has a log."""

    def plant(book: Book, topic: str) -> None:
        arm: dict[str, Any] = {"system": f"kafka-{topic}", "door": door}
        end = START + timedelta(seconds=_LENGTH_S)
        book.tries(_PUBLISH, _RATE, topic, end=end, **arm, **changes)
        logged = [replace(m, logged=door != "native") for m in messages()]
        book.publishes(topic, _PUBLISH, logged, **arm)

    return plant


def of_many(book: Book, topic: str, count: int = 20, factor: float = 1.5) -> None:
    """So many subscriptions, of which the last is given more than its limit."""
    policy, rate = "max_subscription_dispatch_rate", 20
    arm: dict[str, Any] = {"system": f"kafka-{topic}"}
    sent = asked(3 * rate, 24)
    for n in range(count):
        name = f"s{n}" if n < count - 1 else topic
        book.tries(policy, rate, topic, subscription=name, **arm)
        given = rate * (factor if n == count - 1 else 1)
        for m in holding(sent, given, rate):
            dispatch = {"operation": "dispatch", "subscription": name, **arm}
            if m.held:
                waits = {"policy": policy, "action": "delay", "delay": (m.gate_us - m.at_us) * 1_000}
                book.decided(m.at_us + 500, topic, **waits, **dispatch)
            if m.gate_us < 24 * SECOND:
                book.decided(m.gate_us, topic, **dispatch)
                book._received(m.gate_us + 3_000, topic, m, subscription=name, client=f"c-{name}", **arm)
    book.publishes(topic, "", [replace(m, arrivals=(), logged=False) for m in sent], **arm)
