"""Perfect runs with noise: no verdict may be *off* or *disputed*."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from tests.reports.planted import below, bursts, otherwise
from tests.reports.planted.book import (
    LENGTH_S,
    RATE,
    SECOND,
    START,
    Book,
    Message,
    asked,
    bucket,
    holding,
    resumed,
)
from tests.reports.planted.faults import (
    _RATES,
    dozing,
    each,
    publishing,
    rate_trial,
    sized,
    unacknowledged,
)
from tests.reports.planted.late import STALLS, burst_spent_late, delayed, delayed_beside, natively, trickling

from sluicegate_reports.model.verdict import Verdict

_PUBLISH = "max_publish_rate"
_KEPT = (Verdict.EXACT, Verdict.WITHIN)
_UNSURE = (*_KEPT, Verdict.MISSING)


@dataclass(frozen=True, slots=True)
class Perfect:
    """A trial of a perfect gate; its topic is its name."""

    name: str
    play: Callable[[Book, str], None]
    verdicts: tuple[Verdict, ...] = _KEPT
    named: str = ""


def library() -> Iterator[Perfect]:
    """All perfect trials."""
    for policy in _RATES:
        yield Perfect(f"perfect-{policy}", partial(rate_trial, policy=policy, factor=1.0))
    for policy in ("max_message_size", "max_delivery_delay"):
        yield Perfect(f"perfect-{policy}", sized(policy, lambda m: m), (Verdict.EXACT,))
    yield Perfect("perfect-delay", delayed(0), (Verdict.EXACT,))
    stalled = resumed(STALLS)
    for name, sends in (("clients", stalled), ("broker", resumed(()))):
        play = delayed_beside(0, stalled, sends)
        late = "beyond what messages without a delay took"
        yield Perfect(f"delay-while-the-{name}-stalls", play, (Verdict.WITHIN,), late)
    for name, ahead_us in (("ahead", 3 * SECOND), ("a-little-ahead", 50_000)):
        words = "the clocks of producers and consumers differ"
        plant = otherwise.producers_ahead(ahead_us)
        yield Perfect(f"delay-of-producers-{name}", plant, (Verdict.MISSING,), words)
    by_another = otherwise.sized(otherwise.small_refused)
    yield Perfect("refused-by-another-code", by_another, (Verdict.EXACT,), "refused with another code")
    busy, unsure = "GroupMaxSizeReachedError", "cannot be told whether it was this policy"
    for name, turned_away, words in (
        (
            "by-another-limit",
            otherwise.turned_away(busy, "max_consumers_per_subscription"),
            "not by this policy",
        ),
        ("for-another-reason", otherwise.turned_away("NotCoordinatorError"), "not by this policy"),
        ("and-not-logged", otherwise.turned_away(busy), unsure),
        ("natively-by-one-of-two", otherwise.turned_away(busy, door="native"), unsure),
    ):
        yield Perfect(f"turned-away-{name}", turned_away, (Verdict.EXACT,), words)
    yield Perfect("perfect-unacked", unacknowledged(10), (Verdict.EXACT,))
    yield Perfect("calm", publishing(lambda m: m), (Verdict.EXACT,))
    yield Perfect("held", _held)
    yield from _nearly()
    yield Perfect("slow-clients", _slow, (Verdict.NOT_REACHED,), "clients asked for 9.583 messages/s")
    for name, paused_s in (("part", 2.4), ("most", 6.0)):
        yield Perfect(f"consumers-slow-for-{name}-of-the-time", partial(dozing, paused_s=paused_s), _UNSURE)
    yield Perfect("clients-that-stop-for-a-while", publishing(_stalled))
    for name, seen_us in (("stall", resumed(((1.0, 4.0),))), ("lag", trickling(0.1, 1.6, 4.0))):
        play = partial(rate_trial, policy="max_dispatch_rate", factor=1.0, seen_us=seen_us)
        yield Perfect(f"dispatch-while-clients-{name}", play)
    yield Perfect("dispatch-whose-burst-is-spent-late", burst_spent_late)
    yield Perfect("native-while-clients-stall", natively(1.0, resumed(((2.0, 3.9),))))
    yield Perfect("phases-with-messages-on-their-way", partial(_second_phase, stalled=(11.0, 12.9)))
    yield Perfect("restart", publishing(_restarted), (*_KEPT, Verdict.MISSING))
    yield Perfect("bursts", _bursts)
    yield Perfect("not-read-in-time", publishing(_unread), named="not read in time")
    yield Perfect("batches", _batches)
    yield Perfect("few", below.trial(below.few()), (Verdict.EXACT,))
    yield Perfect("crowds-turned-away", below.crowds(held=False))
    yield Perfect("crowds-held", below.crowds(held=True))
    yield Perfect("broker-refuses-below-the-limit", below.broker_refuses())
    yield Perfect("too-large-below-the-limit-natively", below.two_natively)
    yield Perfect("second-phase", _second_phase)
    yield Perfect("two-policies", _two_policies)
    for name, clock in (("ahead", 3600 * SECOND), ("back", -700_000)):
        arm: dict[str, Any] = {"system": f"kafka-right-{name}", "gate_us": lambda us, by=clock: us + by}
        yield Perfect(f"clock-{name}", publishing(lambda m: m, **arm))
    yield Perfect("clock-drifts", _drifting)
    # The gate lets them pass, and the broker refuses one in ten.
    refusing = each(10, lambda m: replace(m, ended="refused", arrivals=(), code="NotEnoughReplicas"))
    yield Perfect("broker-refuses", publishing(refusing, system="kafka-refusing"), (*_KEPT, Verdict.MISSING))


def _nearly() -> Iterator[Perfect]:
    """A little off, and within the bounds; the text says by how much."""
    for share, verdict, words in (
        (1.002, Verdict.EXACT, "largest excess over rate x time + burst: +1"),
        (1.02, Verdict.WITHIN, "largest excess over rate x time + burst: +1"),
        (0.98, Verdict.WITHIN, "% of what was owed while anyone waited (5"),
    ):
        for name, door in (("", "proxy"), ("-natively", "native")):
            play = bursts.trial(partial(bursts.at_share, share), door)
            yield Perfect(f"{share:.1%}-of-the-rate{name}", play, (verdict,), words)


def _held(book: Book, topic: str) -> None:
    # What is held is answered long after the others: an arm of its own, whose recording ends later.
    book.tries(_PUBLISH, RATE, topic, system="kafka-held")
    book.publishes(topic, _PUBLISH, holding(asked()), system="kafka-held")


def _drifting(book: Book, topic: str) -> None:
    """The gate's clock gains 0.02 %, and it decides by it; no message comes just when it may pass."""
    book.tries(_PUBLISH, RATE, topic, system="kafka-drift")
    messages = bucket(asked(1.47 * RATE), RATE * 1.0002)
    book.publishes(topic, _PUBLISH, messages, system="kafka-drift", gate_us=lambda us: us + us // 5_000)


def _slow(book: Book, topic: str) -> None:
    book.tries(_PUBLISH, RATE, topic)
    book.publishes(topic, _PUBLISH, asked(0.48 * RATE))


def _stalled(messages: list[Message]) -> list[Message]:
    """A client's process stands still for 0.8 s: what it would have seen it sees after it."""
    stalled = []
    for m in messages:
        if 12 * SECOND <= m.at_us < 12.8 * SECOND and m.passed:
            stalled.append(replace(m, arrivals=(int(12.8 * SECOND) + m.number,)))
        else:
            stalled.append(m)
    return stalled


def _restarted(messages: list[Message]) -> list[Message]:
    """For 1.5 s nothing answers; the new gate's bucket is full."""
    cut = [m for m in messages if 10 <= m.at_us / SECOND < 11.5]
    before = [m for m in messages if m.at_us < 10 * SECOND]
    after = bucket([m for m in messages if m.at_us >= 11.5 * SECOND])
    again_us = int(11.5 * SECOND)
    failed = [
        replace(m, passed=False, ended="failed", logged=False, arrivals=(), decided_us=again_us) for m in cut
    ]
    return [*before, *failed, *after]


def _bursts(book: Book, topic: str) -> None:
    """All of a second's messages in its first 100 ms."""
    book.tries(_PUBLISH, RATE, topic)
    packed = [
        replace(m, at_us=m.at_us // SECOND * SECOND + (m.at_us % SECOND) // 10 + m.number % 7)
        for m in asked()
    ]
    book.publishes(topic, _PUBLISH, bucket(packed))


def _unread(messages: list[Message]) -> list[Message]:
    """The consumer takes 12 a second, and the run ends before it has all."""
    read, unread = 0, []
    for m in messages:
        if m.passed:
            came = max(m.gate_us + 5_000, int(read * SECOND / 12))
            read += 1
            m = replace(m, arrivals=(came,) if came < (LENGTH_S + 1) * SECOND else ())
        unread.append(m)
    return unread


def _batches(book: Book, topic: str) -> None:
    """Batches of five seconds' worth: a full bucket lets one pass and is in debt for five seconds."""
    book.tries(_PUBLISH, RATE, topic)
    client = {"client": f"p-{topic}", "role": "producer"}
    for n in range(5):
        at_us = n * 5 * SECOND + 1
        for k in range(100):
            columns = {"sequence": n * 100 + k, **client}
            book.saw(at_us, topic, event="sent", **columns)
            book.saw(at_us + 3_000, topic, event="acknowledged", latency_ns=3_000_000, **columns)
        if n:
            waited = {"action": "delay", "policy": _PUBLISH, "delay": 4_900_000_000}
            book.decided(at_us - 4_900_000, topic, messages=100, **waited)
        book.decided(at_us + 1_000, topic, messages=100)


def _second_phase(book: Book, topic: str, stalled: tuple[float, float] = (0, 0)) -> None:
    """The bucket was emptied in an earlier phase; clients may stand still between the two."""
    middle = START + timedelta(seconds=12)
    book.tries(_PUBLISH, RATE, topic, end=middle)
    book.tries(_PUBLISH, RATE, topic, start=middle, phase="loaded")
    book.publishes(topic, _PUBLISH, bucket(asked()), seen_us=resumed([stalled]))


def _two_policies(book: Book, topic: str) -> None:
    """One in five is too large, and charged to no rate."""
    book.tries(_PUBLISH, RATE, topic)
    book.tries("max_message_size", 1_000, topic)
    messages = asked(2 * RATE)
    large = [
        replace(m, size=2_000, passed=False, policy="max_message_size", code="MessageSizeTooLarge")
        for m in messages
        if m.number % 5 == 0
    ]
    small = bucket([m for m in messages if m.number % 5])
    book.publishes(topic, _PUBLISH, sorted([*large, *small], key=lambda m: m.number))
