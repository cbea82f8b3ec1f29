"""Faults whose cause both logs together show: each is named, with when and how much."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tests.reports.planted.book import LENGTH_S, RATE, SECOND, Book, Message, asked, bucket

_PUBLISH = "max_publish_rate"
Plant = Callable[[Book, str], None]


def library() -> Iterator[tuple[str, Plant, str]]:
    """Name of the trial, what plants it, and words that name the cause."""
    yield "log-counted-twice", twice, "the log has each row twice: 499 messages are counted again"
    yield "ten-seconds-of-log-missing", _publishing(unlogged), "the log has nothing from 7 s to 17 s, when cl"
    yield "broker-away", _publishing(away), "nobody got an answer from 10 s to 15 s, and 150 sends failed"
    yield "broker-away-natively", _publishing(away, door="native"), "nobody got an answer from 10 s to 15 s"
    for name, by_s in (("forward", 3), ("back", -3)):
        words = f"the gateway's clock was set {name} at about 12 s, by 3"
        yield f"clock-set-{name}", partial(stepped, by_s=by_s), words
    yield "two-gateways", two_gateways, "2 gateways (a, b) each kept the whole limit by itself"
    yield "policies-changed", changed, "the policies changed at 12 s (version 1 to 2)"
    words = "the gateway's limit changed at 14 s, from 20 to 40"
    yield "limit-changed", partial(changed, limits=(20, 40)), words


def _publishing(change: Callable[[list[Message]], list[Message]], door: str = "proxy") -> Plant:
    def plant(book: Book, topic: str) -> None:
        arm: dict[str, Any] = {"system": f"kafka-{topic}", "door": door}
        book.tries(_PUBLISH, RATE, topic, **arm)
        logged = [replace(m, logged=m.logged and door != "native") for m in change(bucket(asked()))]
        book.publishes(topic, _PUBLISH, logged, **arm)

    return plant


def twice(book: Book, topic: str) -> None:
    """As after a copy of its files within the same folder."""
    _publishing(lambda messages: messages)(book, topic)
    book.decisions[f"kafka-{topic}"] *= 2


def unlogged(messages: list[Message]) -> list[Message]:
    return [replace(m, logged=not 7 <= m.at_us / SECOND < 17) for m in messages]


def away(messages: list[Message]) -> list[Message]:
    """For five seconds each send fails, and is told so a quarter of a second after the time."""
    back_us = 15 * SECOND + 1
    lost = {"passed": False, "ended": "failed", "logged": False, "arrivals": (), "decided_us": back_us}
    return [
        replace(m, **lost) if 10 * SECOND <= m.at_us < 15 * SECOND else m  # type: ignore[arg-type]
        for m in messages
    ]


def stepped(book: Book, topic: str, by_s: int) -> None:
    """The gate decides by a clock that nobody sets, and writes down times of one that is."""
    arm: dict[str, Any] = {"system": f"kafka-{topic}"}
    book.tries(_PUBLISH, RATE, topic, **arm)
    middle_us = LENGTH_S // 2 * SECOND
    book.publishes(
        topic,
        _PUBLISH,
        bucket(asked()),
        gate_us=lambda us: us + by_s * SECOND * (us >= middle_us),
        **arm,
    )


def two_gateways(book: Book, topic: str) -> None:
    """Half of the clients' messages go to each of them."""
    arm: dict[str, Any] = {"system": f"kafka-{topic}"}
    book.tries(_PUBLISH, RATE, topic, **arm)
    all_of_them = asked(3 * RATE)
    for half, gateway in enumerate("ab"):
        messages = bucket([m for m in all_of_them if m.number % 2 == half])
        before = len(book.decisions.get(arm["system"], []))
        book.publishes(topic, _PUBLISH, messages, **arm)
        for row in book.decisions[arm["system"]][before:]:
            row["gateway"] = gateway


def changed(book: Book, topic: str, limits: tuple[int, int] | None = None) -> None:
    """Twice the limit from the middle on, by other policies, or by limits that refusals tell."""
    arm: dict[str, Any] = {"system": f"kafka-{topic}"}
    book.tries(_PUBLISH, RATE, topic, **arm)
    messages = asked(3 * RATE)
    middle_us = LENGTH_S // 2 * SECOND
    first = bucket([m for m in messages if m.at_us < middle_us])
    second = bucket([m for m in messages if m.at_us >= middle_us], 2 * RATE, 2 * RATE)
    book.publishes(topic, _PUBLISH, first, **arm)
    before = len(book.decisions[arm["system"]])
    book.publishes(topic, _PUBLISH, second, **arm)
    for number, row in enumerate(book.decisions[arm["system"]]):
        if limits is None:
            row["policy_version"] = 1 if number < before else 2
        elif row["action"] == "reject":
            row["limit"] = float(limits[number >= before])
