"""What happened otherwise than its client was told, and clocks that tell otherwise than each other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.reports.planted.book import SECOND, START_US, Book, Message, asked

Plant = Callable[[Book, str], None]
_REFUSED: dict[str, tuple[str, str, str]] = {
    "producer": ("max_producers_per_topic", "PolicyViolationError", "Producer limit reached for topic"),
    "consumer": (
        "max_consumers_per_topic",
        "GroupMaxSizeReachedError",
        "Consumer limit per topic reached",
    ),
}


def served(role: str) -> Plant:
    """The third client is refused, rightly, and then sends or gets messages like the others."""
    policy, code, text = _REFUSED[role]

    def plant(book: Book, topic: str) -> None:
        book.tries(policy, 2, topic)
        refused = {"event": "attach_refused", "code": code, "text": text}
        book.attaches(topic, [{}, {}, refused], role, subscription=None if role == "producer" else "s")
        client = {"client": f"{topic}-2", "role": role}
        for number in range(20):
            at_us = 5 * SECOND + number * 100_000
            if role == "producer":
                book.saw(at_us, topic, event="sent", sequence=number, **client)
                columns = {"event": "acknowledged", "latency_ns": 2_000_000}
                book.saw(at_us + 2_000, topic, sequence=number, **columns, **client)
            else:
                came = {"event": "received", "subscription": "s", "producer": "p", "published": START_US}
                book.saw(at_us, topic, sequence=number, **came, **client)

    return plant


def turned_away(code: str, policy: str = "", **arm: str) -> Plant:
    """Two consumers are let in, and a third is told a code without words.

    :param policy: in whose name the log tells of it; it does not if this is empty.
    """

    def plant(book: Book, topic: str) -> None:
        book.tries("max_consumers_per_topic", 2, topic, **arm)
        if arm:
            book.tries("max_consumers_per_subscription", 2, topic, subscription="s", **arm)
        refused = {"event": "attach_refused", "code": code}
        book.attaches(topic, [{}, {}, refused], "consumer", subscription="s", **arm)
        if policy:
            row = {"operation": "attach_consumer", "subscription": "s", "client": f"{topic}-2@h:1"}
            book.decided(3 * SECOND, topic, action="reject", policy=policy, messages=0, **row)

    return plant


def sized(value_of: Callable[[Message], Message]) -> Plant:
    """A limit on sizes of 1,000 bytes; of eight messages one is too large and refused."""

    def plant(book: Book, topic: str) -> None:
        book.tries("max_message_size", 1_000, topic)
        large = {"size": 1_001, "passed": False, "code": "MessageSizeTooLarge"}
        messages = [value_of(m) if m.number % 8 else replace(m, **large) for m in asked(10, 20)]  # type: ignore[arg-type]
        book.publishes(topic, "max_message_size", messages)

    return plant


def large_without_answer(message: Message) -> Message:
    """One in eight is too large, is stored, and its producer gets no answer that tells."""
    return replace(message, size=2_000, ended="failed") if message.number % 8 == 4 else message


def small_refused(message: Message) -> Message:
    """One in four is refused by another name."""
    refused = {"passed": False, "code": "PolicyViolationError"}
    return replace(message, **refused) if message.number % 4 == 2 else message  # type: ignore[arg-type]


def producers_ahead(ahead_us: int) -> Plant:
    """A perfect delay of 500 ms by a gate and consumers of one clock; producers have another."""

    def plant(book: Book, topic: str) -> None:
        arm: dict[str, Any] = {"system": f"kafka-{topic}"}
        book.tries("fixed_delivery_delay", 500, topic, **arm)
        for name, delay_us in ((topic, 500_000), (f"{topic}-undelayed", 0)):
            for m in asked(10, 20):
                sent_us = m.at_us + ahead_us
                producer = {"client": f"p-{name}", "role": "producer", "sequence": m.number, **arm}
                book.saw(sent_us, name, event="sent", **producer)
                columns = {"event": "acknowledged", "latency_ns": 3_000_000}
                book.saw(sent_us + 3_000, name, **columns, **producer)
                book.decided(m.gate_us, name, **arm)
                consumer = {"client": f"c-{name}", "role": "consumer", "subscription": "s", **arm}
                came = {"producer": f"p-{name}", "published": START_US + sent_us, "sequence": m.number}
                book.saw(m.gate_us + delay_us + 5_000, name, event="received", **came, **consumer)

    return plant
