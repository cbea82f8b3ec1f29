"""The library of faults: each entry plants one into one trial and gives the words that must name it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.reports.planted import below, bursts, causes, otherwise
from tests.reports.planted.book import (
    LENGTH_S,
    RATE,
    SECOND,
    SIZE,
    Book,
    Message,
    SeenUs,
    asked,
    bucket,
    holding,
    resumed,
)
from tests.reports.planted.late import STALLS, delayed, delayed_beside, natively

_PUBLISH = "max_publish_rate"
_WORDS = "Consumer limit per topic reached"
CUT = "-with-its-file-cut"
"""At the end of the name of a trial whose system's log is cut short."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A trial with a fault; its topic is its name."""

    name: str
    plant: Callable[[Book, str], None]
    named: str
    """Words of the finding."""


def library() -> Iterator[Planted]:
    """All faults."""
    yield from _rates()
    yield from _answers_of_rates()
    yield from _bursts()
    yield from _delivery()
    yield from _against_clients()
    yield from _counts()
    yield from _messages()
    yield from _clocks()
    yield from (Planted(*cause) for cause in causes.library())


def publishing(change: Callable[[list[Message]], list[Message]], **arm: Any) -> Callable[[Book, str], None]:
    """A perfect limit on publishing, then a change."""

    def plant(book: Book, topic: str) -> None:
        book.tries(_PUBLISH, RATE, topic, **{k: v for k, v in arm.items() if not k.endswith("_us")})
        book.publishes(topic, _PUBLISH, change(bucket(asked())), **dict(arm))

    return plant


def each(
    share: int, change: Callable[[Message], Message], passed: bool = True
) -> Callable[[list[Message]], list[Message]]:
    """One in so many of those that passed, or did not, is changed."""

    def changed(messages: list[Message]) -> list[Message]:
        count, changed = 0, []
        for message in messages:
            count += message.passed is passed
            chosen = message.passed is passed and count % share == 0
            changed.append(change(message) if chosen else message)
        return changed

    return changed


# -- rates --------------------------------------------------------------------------------------------------


def rate_trial(
    book: Book,
    topic: str,
    policy: str,
    factor: float,
    at_first: float = 0,
    seen_us: SeenUs | None = None,
) -> None:
    """One trial of any policy of rate under a gate that lets through `factor` of the limit.

    :param at_first: seconds in which it lets through all that is asked for.
    :param seen_us: of a dispatch, see `Book.publishes`.
    """
    limit = RATE * (SIZE if policy.endswith("_bytes") else 1)
    of_one = "s" if "subscription" in policy else ""
    if policy == "connection_rate_limit":
        book.tries(policy, RATE, "", system="kafka-attach", door=topic)
        return _attaching(book, topic, factor)
    book.tries(policy, limit, topic, subscription=of_one)
    messages = asked(2 * RATE) if factor > 1 else asked()
    late = [m for m in messages if m.at_us >= at_first * SECOND]
    early = [m for m in messages if m.at_us < at_first * SECOND]
    if "dispatch" not in policy:
        return book.publishes(topic, policy, early + bucket(late, RATE * factor))
    passed = early + holding(late, RATE * factor)
    return book.dispatches(topic, policy, passed, seen_us)


def _attaching(book: Book, door: str, factor: float) -> None:
    arm = {"system": "kafka-attach", "door": door}
    for m in bucket(asked(2 * RATE), RATE * factor):
        client = {"client": f"n{m.number}", "role": "producer", "latency_ns": 3_000_000}
        event = "attached" if m.passed else "attach_refused"
        book.saw(m.at_us + 3_000, f"{door}-topic", event=event, **client, **arm)
        action = {} if m.passed else {"action": "reject", "policy": "connection_rate_limit"}
        row = {"operation": "attach_producer", "messages": 0, "client": f"n{m.number}@h:1"}
        book.decided(m.at_us + 1_000, f"{door}-topic", **row, **action, **arm)


_RATES = (
    _PUBLISH,
    "max_publish_rate_bytes",
    "max_dispatch_rate",
    "max_dispatch_rate_bytes",
    "max_subscription_dispatch_rate",
    "max_subscription_dispatch_rate_bytes",
    "connection_rate_limit",
)


def _rates() -> Iterator[Planted]:
    for policy in _RATES:
        for name, factor, named in (("over", 1.2, "+"), ("under", 0.8, " less from ")):
            yield Planted(f"{policy}-{name}", partial(rate_trial, policy=policy, factor=factor), named)
    for policy in _RATES[:6]:
        # Twice the limit for eight seconds, then exact: no window after the burst shows it.
        late = partial(rate_trial, policy=policy, factor=1.0001, at_first=8)
        yield Planted(f"{policy}-late", late, "largest excess over rate x time + burst: +")
    stalled = resumed(((9.0, 11.0),))
    over = partial(rate_trial, policy="max_dispatch_rate", factor=1.1, seen_us=stalled)
    yield Planted("max_dispatch_rate-over-while-clients-stall", over, "+")
    yield Planted("native-over-while-clients-stall", natively(1.1, stalled), "+")
    slow = partial(dozing, paused_s=1.2, factor=0.8)
    yield Planted("max_dispatch_rate-under-slow-consumers", slow, " less from ")


def dozing(book: Book, topic: str, paused_s: float, factor: float = 1.0) -> None:
    """A consumer that fetches tens: three at once, of which one is held, and then none for some time.

    The bucket is full after a second without a fetch: what is lost after that is the consumer's own fault.

    :param factor: of the limit, which the gate lets through.
    """
    policy = "max_dispatch_rate"
    book.tries(policy, RATE, topic, subscription="s")
    sent = [replace(m, arrivals=()) for m in asked(2 * RATE)]
    book.publishes(topic, "", sent)
    waiting = iter(sent)
    empty_us, at_us, number = 0, 2 * SECOND, 0
    while at_us < LENGTH_S * SECOND:
        # When the bucket was last empty: a full one holds a second's worth, ten take half a second to come.
        empty_us = max(empty_us, at_us - SECOND) + int(SECOND / 2 / factor)
        passes_us = max(at_us, empty_us)
        dispatch = {"operation": "dispatch", "subscription": "s"}
        if passes_us > at_us:
            delay = {"action": "delay", "delay": (passes_us - at_us) * 1_000}
            book.decided(at_us, topic, policy=policy, messages=10, **delay, **dispatch)
        book.decided(passes_us, topic, messages=10, **dispatch)
        for message in (next(waiting) for _ in range(10)):
            book._received(passes_us + 3_000, topic, message)
        number += 1
        dozes = number % 3 == 0 and at_us > 5 * SECOND
        at_us = passes_us + (int(paused_s * SECOND) if dozes else 50_000)


def _bursts() -> Iterator[Planted]:
    """What a mean hides: by the gate's log, natively, and with a part of the log lost."""
    for count, over in ((250, "+21"), (400, "+36")):
        for name, door in (("", "proxy"), ("-natively", "native"), (CUT, "proxy")):
            messages = partial(bursts.at_once, count)
            named = f"largest excess over rate x time + burst: {over}"
            yield Planted(f"{count}-at-once{name}", bursts.trial(messages, door), named)


def _answers_of_rates() -> Iterator[Planted]:
    def sparse(book: Book, topic: str) -> None:
        """At 60 % of the limit every fourth is refused."""
        book.tries(_PUBLISH, RATE, topic, saturated=False)
        messages = each(4, lambda m: replace(m, passed=False))(asked(0.6 * RATE))
        book.publishes(topic, _PUBLISH, messages)

    def early(messages: list[Message]) -> list[Message]:
        return [replace(m, passed=m.passed and m.number % 2 == 0) if m.number < 240 else m for m in messages]

    def batches(book: Book, topic: str) -> None:
        """Five times as large as a second's worth, and 80 % too often."""
        book.tries(_PUBLISH, RATE, topic)
        client = {"client": f"p-{topic}", "role": "producer"}
        for n in range(8):
            at_us = int(n * 5 * SECOND / 1.8) + 1
            for k in range(100):
                book.saw(at_us, topic, event="sent", sequence=n * 100 + k, **client)
                columns = {"event": "acknowledged", "latency_ns": 3_000_000, "sequence": n * 100 + k}
                book.saw(at_us + 3_000, topic, **columns, **client)
            columns = {"action": "delay", "policy": _PUBLISH, "delay": 10**9}
            book.decided(at_us + 500, topic, messages=100, **columns)
            book.decided(at_us + 1_000, topic, messages=100)

    def misattributed(messages: list[Message]) -> list[Message]:
        return [replace(m, policy="" if m.passed else "max_message_size") for m in messages]

    yield Planted("refused-below-the-limit", sparse, "wrongly refused")
    for name, plant in (
        ("refused-after-a-minute", below.trial(below.turned_away(below.few(84), from_s=62), 84)),
        ("refused-as-a-summary-tells", below.summed_up(below.turned_away(below.few()))),
        ("refused-natively", below.trial(below.turned_away(below.few()), door="native")),
        ("held", below.trial(below.made_wait(below.few()))),
    ):
        yield Planted(f"{name}-below-the-limit", plant, "held back below the limit")
    yield Planted("limited-too-early", publishing(early), "wrongly refused")
    yield Planted("large-batches-too-often", batches, "largest excess over rate x time + burst: +")
    yield Planted("refused-in-another-name", publishing(misattributed), "in the name of another policy")


# -- what became of messages --------------------------------------------------------------------------------


def _delivery() -> Iterator[Planted]:
    def twice(m: Message) -> Message:
        return replace(m, arrivals=(*m.came, m.gate_us + 90_000))

    def overtaken(m: Message) -> Message:
        return replace(m, arrivals=(m.gate_us + 250_000,))

    def lost_tail(messages: list[Message]) -> list[Message]:
        return [
            replace(m, arrivals=()) if 15 < m.at_us / SECOND < 18 or m.number > 500 else m for m in messages
        ]

    for policy in _RATES[:2]:
        for name, change, named in (
            ("lost", each(3, lambda m: replace(m, arrivals=())), "lost"),
            ("twice", each(1, twice), "received twice"),
            ("reordered", each(5, overtaken), "out of order"),
            (
                "refused-but-stored",
                each(10, lambda m: replace(m, ended="refused")),
                "told refused but delivered",
            ),
        ):
            yield Planted(f"{policy}-{name}", _delivering(policy, change), named)
    yield Planted("lost-at-the-end", publishing(lost_tail), "lost")
    yield Planted("all-lost", publishing(each(1, lambda m: replace(m, arrivals=()))), "lost")


def _delivering(policy: str, change: Callable[[list[Message]], list[Message]]) -> Callable[[Book, str], None]:
    def plant(book: Book, topic: str) -> None:
        book.tries(policy, RATE * (SIZE if policy.endswith("_bytes") else 1), topic)
        book.publishes(topic, policy, change(bucket(asked())))

    return plant


def _against_clients() -> Iterator[Planted]:
    """The gate's log against what clients saw."""

    def unlogged(messages: list[Message]) -> list[Message]:
        """The log is perfect, and half as much again is let through beside it."""
        return [replace(m, passed=True, logged=m.passed) for m in messages]

    def a_tenth(messages: list[Message]) -> list[Message]:
        """Of what was refused, one in five passed, which is a tenth of the limit."""
        return each(5, lambda m: replace(m, passed=True, logged=False), passed=False)(messages)

    named = "the log and the clients disagree"
    yield Planted("more-than-the-log-tells", publishing(unlogged), named)
    book_late = partial(publishing, seen_us=resumed(((9.0, 11.0),)))
    yield Planted("a-tenth-more-than-the-log-tells-while-clients-stall", book_late(a_tenth), named)
    few = each(4, lambda m: replace(m, ended="nothing", arrivals=()))
    yield Planted("less-than-the-log-tells", publishing(few), named)
    # The log tells of a tenth more than came to it.
    yield Planted("log-has-gaps", publishing(each(5, lambda m: replace(m, logged=False))), named)


# -- counts, sizes, delays ----------------------------------------------------------------------------------


def _counts() -> Iterator[Planted]:
    refused = {"event": "attach_refused", "code": "PolicyViolationError"}
    for policy, role, code in (
        ("max_producers_per_topic", "producer", "PolicyViolationError"),
        ("max_consumers_per_topic", "consumer", "GroupMaxSizeReachedError"),
        ("max_consumers_per_subscription", "consumer", "GroupMaxSizeReachedError"),
        ("max_subscriptions_per_topic", "consumer", "GroupMaxSizeReachedError"),
    ):
        for name, events, named in (
            ("over", [{}, {}, {}, {**refused, "code": code}], "let in"),
            ("under", [{}, {**refused, "code": code}, {**refused, "code": code}], "refused"),
        ):
            yield Planted(f"{policy}-{name}", _attached(policy, role, events), named)


def _attached(policy: str, role: str, events: list[dict[str, Any]]) -> Callable[[Book, str], None]:
    words = {
        "max_producers_per_topic": "Producer limit reached for topic",
        "max_consumers_per_topic": _WORDS,
        "max_consumers_per_subscription": "Consumer limit per subscription reached",
        "max_subscriptions_per_topic": "Subscription limit reached for topic",
    }

    def plant(book: Book, topic: str) -> None:
        book.tries(policy, 2, topic, subscription="s" if policy.endswith("subscription") else "")
        own = [
            {
                **event,
                "text": words[policy] if "code" in event else None,
                "subscription": None
                if role == "producer"
                else f"s{n}"
                if policy == "max_subscriptions_per_topic"
                else "s",
            }
            for n, event in enumerate(events)
        ]
        book.attaches(topic, own, role)

    return plant


def sized(policy: str, change: Callable[[Message], Message]) -> Callable[[Book, str], None]:
    """A perfect limit on sizes or on delays asked for, then a change of each message."""

    def plant(book: Book, topic: str) -> None:
        book.tries(policy, 1_000, topic)
        messages = []
        for message in asked(10, 20):
            value = 1_001 if message.number % 4 == 0 else 1_000
            own = replace(message, passed=value <= 1_000, code="MessageSizeTooLarge")
            by_size = policy == "max_message_size"
            own = replace(own, size=value) if by_size else replace(own, asked_ms=value)
            messages.append(change(own))
        book.publishes(topic, policy, messages)

    return plant


def _messages() -> Iterator[Planted]:
    for policy in ("max_message_size", "max_delivery_delay"):
        for name, change, named in (
            ("over", lambda m: replace(m, passed=m.passed or m.number % 40 == 0), "let in"),
            ("under", lambda m: replace(m, passed=m.passed and m.number % 50 != 1), "refused"),
            ("refused-but-stored", lambda m: replace(m, passed=True, ended=m.answer), "told refused but"),
            ("lost", lambda m: replace(m, arrivals=() if m.number % 3 == 1 else m.arrivals), "lost"),
            ("twice", lambda m: replace(m, arrivals=m.came * 2), "received twice"),
            ("truncated", lambda m: replace(m, lacks=m.number % 30 == 3), "of another size than sent"),
            ("unlogged", lambda m: replace(m, logged=m.passed), "0 messages were refused by the log"),
            ("half-logged", lambda m: replace(m, logged=m.passed or m.number % 8 > 0), "25 messages were"),
            ("logged-as-another", lambda m: replace(m, policy="max_publish_rate"), "0 messages were refused"),
        ):
            yield Planted(f"{policy}-{name}", sized(policy, change), named)
    for name, late_ms, named in (
        ("early", -60, "early"),
        ("late", 1_500, "late"),
        ("lost", None, "lost"),
    ):
        yield Planted(f"fixed_delivery_delay-{name}", delayed(late_ms), named)
    same, stalled = resumed(()), resumed(STALLS)
    for name, late_ms, stops, beside, named in (
        ("early-while-clients-stall", -25, stalled, "", "early"),
        ("late-while-clients-stall", 1_800, stalled, "", "late"),
        ("late-while-the-broker-stalls", 1_800, same, "", "late"),
        ("late-beside-what-a-rate-holds", 1_800, same, _PUBLISH, "late"),
    ):
        seen = same if beside else stalled
        plant = delayed_beside(late_ms, seen, stops, beside)
        yield Planted(f"fixed_delivery_delay-{name}", plant, named)
    yield Planted("max_unacked_messages_per_consumer-over", unacknowledged(12), "12 unacknowledged")
    early = "95 never came, though there was room for them"
    yield Planted("max_unacked_messages_per_consumer-under", unacknowledged(5), early)
    untold = otherwise.sized(otherwise.large_without_answer)
    yield Planted("max_message_size-over-without-an-answer", untold, "25 let in")
    for role in ("producer", "consumer"):
        yield Planted(f"{role}-refused-yet-served", otherwise.served(role), "1 refused and yet served")


def unacknowledged(most: int) -> Callable[[Book, str], None]:
    """A consumer that acknowledges nothing gets so many; its limit is 10."""

    def plant(book: Book, topic: str) -> None:
        book.tries("max_unacked_messages_per_consumer", 10, topic)
        consumer = {"client": f"c-{topic}", "role": "consumer", "subscription": "s"}
        book.saw(0, topic, event="attached", acknowledges=False, **consumer)
        messages = [replace(m, arrivals=None if m.number < most else ()) for m in asked(5, 20)]
        book.publishes(topic, "", messages)

    return plant


# -- clocks -------------------------------------------------------------------------------------------------


def _clocks() -> Iterator[Planted]:
    over = each(3, lambda m: replace(m, passed=True), passed=False)
    for name, clock in (
        ("ahead", lambda us: us + 3600 * SECOND),
        ("ten-years-off", lambda us: us - 10 * 365 * 86_400 * SECOND),
        ("drifting", lambda us: us + 2 * SECOND + us // 2_000),
    ):
        arm: dict[str, Any] = {"system": f"kafka-{name}", "gate_us": clock}
        yield Planted(f"over-under-a-clock-{name}", publishing(over, **arm), "+")
