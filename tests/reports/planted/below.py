"""Clients that ask for less than the limit: nobody may hold them back, unless they come all at once."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.reports.planted.book import RATE, SECOND, START, Book, Message, asked, bucket, holding

_PUBLISH = "max_publish_rate"
Plant = Callable[[Book, str], None]


def few(length_s: float = 24) -> list[Message]:
    """At 60 % of the limit."""
    return asked(0.6 * RATE, length_s)


def turned_away(messages: list[Message], from_s: float = 0) -> list[Message]:
    """Every fourth is refused."""
    return [
        replace(m, passed=m.at_us < from_s * SECOND or bool(number % 4)) for number, m in enumerate(messages)
    ]


def made_wait(messages: list[Message]) -> list[Message]:
    """Each is held for 2 s."""
    return [replace(m, decided_us=m.at_us + 2 * SECOND, held=True) for m in messages if m.at_us < 20 * SECOND]


def trial(messages: list[Message], length_s: float = 24, door: str = "proxy") -> Plant:
    """An arm of its own; only a gate has a log."""

    def plant(book: Book, topic: str) -> None:
        arm: dict[str, Any] = {"system": f"kafka-{topic}", "door": door}
        end = START + timedelta(seconds=length_s)
        book.tries(_PUBLISH, RATE, topic, saturated=False, end=end, **arm)
        columns = [replace(m, logged=m.logged and door != "native") for m in messages]
        book.publishes(topic, _PUBLISH, columns, **arm)

    return plant


def summed_up(messages: list[Message]) -> Plant:
    """The log has what passed by windows of 100 ms."""

    def plant(book: Book, topic: str) -> None:
        trial([replace(m, logged=False) for m in messages])(book, topic)
        refused = {"action": "reject", "policy": _PUBLISH}
        for m in messages:
            columns = {"window": 100} if m.passed else refused
            at_us = m.gate_us // 100_000 * 100_000 if m.passed else m.gate_us
            book.decided(at_us, topic, system=f"kafka-{topic}", **columns)

    return plant


def crowds(held: bool) -> Plant:
    """Twice a full bucket at once, every 2.2 s: below the limit, and half of it has to wait."""
    at_once = [Message(n, n // 40 * 2_200_000 + n % 40 * 1_000) for n in range(10 * 40)]
    return trial(holding(at_once) if held else bucket(at_once))


def broker_refuses() -> Plant:
    """The gate lets all pass, and the broker refuses every fourth."""
    refused = {"ended": "refused", "arrivals": (), "code": "NotEnoughReplicas"}
    return trial([replace(m, **({} if n % 4 else refused)) for n, m in enumerate(few())])  # type: ignore[arg-type]


def two_natively(book: Book, topic: str) -> None:
    """Every fourth is too large, and refused for that by a system without a log."""
    arm: dict[str, Any] = {"system": f"kafka-{topic}", "door": "native"}
    book.tries("max_message_size", 1_000, topic, **arm)
    large = {"size": 2_000, "code": "MessageSizeTooLarge"}
    messages = [replace(m, **({} if m.passed else large)) for m in turned_away(few())]  # type: ignore[arg-type]
    trial(messages, door="native")(book, topic)
