"""What comes late: delayed messages, and clients or whole machines that stand still."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.reports.planted.book import RATE, SECOND, START, Book, Message, SeenUs, asked, holding, resumed

_PUBLISH = "max_publish_rate"
STALLS = ((4.0, 4.5), (7.0, 10.0), (14.0, 15.5))
"""When everybody stands still, in s."""


def delayed(late_ms: int | None) -> Callable[[Book, str], None]:
    """Messages delayed by 500 ms; one in ten otherwise, or never delivered."""

    def plant(book: Book, topic: str) -> None:
        book.tries("fixed_delivery_delay", 500, topic)
        book.publishes(topic, "", _due(asked(10, 20), late_ms))

    return plant


def _due(messages: list[Message], late_ms: int | None, one_in: int = 10) -> list[Message]:
    due = []
    for message in messages:
        wrong = message.number % one_in == one_in // 3
        due_us = message.at_us + 500_000 + (late_ms or 0) * 1_000 * wrong + 20_000
        due.append(replace(message, arrivals=() if wrong and late_ms is None else (due_us,)))
    return due


def delayed_beside(
    late_ms: int, seen_us: SeenUs, sends_us: SeenUs, beside: str = ""
) -> Callable[[Book, str], None]:
    """Messages delayed by 500 ms and `late_ms`, beside a topic without a delay, to which the same happens.

    :param seen_us: see `Book.publishes`.
    :param sends_us: likewise when producers send.
    :param beside: the policy of the other topic, which holds its messages back.
    """

    def plant(book: Book, topic: str) -> None:
        arm: dict[str, Any] = {"system": f"kafka-{topic}"}
        sent = [replace(m, at_us=sends_us(m.at_us)) for m in asked(10, 22)]
        book.tries("fixed_delivery_delay", 500, topic, **arm)
        book.publishes(topic, "", _due(sent, late_ms, 1), seen_us=seen_us, **arm)
        others = sent
        if beside:
            book.tries(beside, 4, f"beside-{topic}", saturated=False, **arm)
            others = holding(sent, 4)
        book.publishes(f"beside-{topic}", beside, others, seen_us=seen_us, **arm)

    return plant


def natively(factor: float, seen_us: SeenUs) -> Callable[[Book, str], None]:
    """A system's own limit on dispatch, of which only clients tell, and which lets through `factor` of it."""

    def plant(book: Book, topic: str) -> None:
        arm = {"system": f"kafka-{topic}", "door": "native"}
        book.tries("max_dispatch_rate", RATE, topic, subscription="s", **arm)
        messages = holding(asked(2 * RATE), RATE * factor)
        unlogged = [replace(m, logged=False) for m in messages]
        book.dispatches(topic, "max_dispatch_rate", unlogged, seen_us, **arm)

    return plant


def burst_spent_late(book: Book, topic: str) -> None:
    """For 2 s of a short phase less than the limit is asked for; in the second one clients stand still."""
    end = START + timedelta(seconds=6.9)
    trial = {"subscription": "s", "end": end, "burst_seconds": 0.5}
    book.tries("max_dispatch_rate", RATE, topic, **trial)
    few = asked(0.95 * RATE, 2)
    many = [replace(m, number=m.number + len(few), at_us=m.at_us + 2 * SECOND) for m in asked(3 * RATE, 5)]
    passed = holding([*few, *many], RATE, RATE / 2)
    book.dispatches(topic, "max_dispatch_rate", passed, resumed([(1.0, 2.0)]))


def trickling(start_s: float, slow_s: float, end_s: float) -> SeenUs:
    """What is due until `slow_s` clients see ever later, until `end_s`, and then at once what came since."""

    def after(us: int) -> int:
        start, slow, end = (int(each * SECOND) for each in (start_s, slow_s, end_s))
        if start <= us < slow:
            return start + (us - start) * (end - start) // (slow - start)
        return end + (us - slow) // 1_000 if slow <= us < end else us

    return after
