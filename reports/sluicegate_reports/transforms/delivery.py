"""Delivery of messages: lost, not read in time, doubled, out of order, altered, or delivered though refused.

What producers were told is set against what each subscription got, one producer at a time.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sluicegate_reports.transforms.packed import NEVER, TOPIC_COLUMNS, Flags, Key, Names, Numbers, Part, Topic

COUNTS = (
    *("acknowledged", "received", "lost", "unread", "duplicates", "reordered"),
    *("altered", "told_refused", "told_nothing"),
)
_Columns = TypeVar("_Columns", "Answers", "Came")
_LATER = np.iinfo(np.int64).max


class Answers(NamedTuple):
    """Answers to producers, or one for each message."""

    producer: Numbers
    sequence: Numbers
    phase: Numbers
    stored: Flags
    refused: Flags
    told_us: Numbers
    delay_us: Numbers
    """That the producer asked for."""
    size: Numbers
    """Of the payload; NEVER if it is not told of the message alone."""


class Came(NamedTuple):
    """Deliveries; of each message the first."""

    producer: Numbers
    sequence: Numbers
    reader: Numbers
    consumer: Numbers
    came_us: Numbers
    published_us: Numbers
    """NEVER if it is not told."""
    size: Numbers
    """As producers tell it."""


class Seen(NamedTuple):
    """What clients saw of a slice of a topic."""

    answers: Answers
    came: Came
    subscribed: frozenset[int]
    clients: Names
    phases: Names
    readers: Names


class _Met(NamedTuple):
    """Messages of which something was told, and what became of each at one subscription."""

    answers: Answers
    times: Numbers
    came_us: Numbers
    """LATER of those that did not come."""
    late: Flags
    """Came after a later one, though it was not sent beside it."""
    altered: Flags
    """Came with another size than it was sent with."""
    overtaken_us: Numbers
    """When the first of the later ones came; LATER if none did."""


def ends(topic: Topic) -> Iterator[Part]:
    """When anything was seen last on a topic, and received last, by arm."""
    last_us = read_us = NEVER
    for piece in topic.observations("time_us", "event"):
        at_us, received = piece.number("time_us"), piece.text("event").among("received")
        last_us = max(last_us, int(at_us.max()))
        read_us = max(read_us, int(at_us[received].max(initial=NEVER)))
    if last_us != NEVER and topic.name is not None:
        yield topic.arm, (last_us, read_us)


def ends_together(key: tuple[str, str], parts: Sequence[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Last observation and last delivery of an arm: `system`, `door`, `last_us`, `read_us`."""
    last_us, read_us = (max(each) for each in zip(*parts, strict=True))
    yield {"system": key[0], "door": key[1], "last_us": last_us, "read_us": read_us}


def read_until(
    seen: Sequence[Mapping[str, Any]], told_us: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], int]:
    """Until when each arm was read; what came later than its run says was read too.

    :param seen: see `ends_together`.
    :param told_us: when the consumers of an arm stopped reading; one that it lacks was read until its last
        observation.
    """
    arms = {(row["system"], row["door"]): row for row in seen}
    return {
        arm: max(told_us[arm], row["read_us"]) if arm in told_us else row["last_us"]
        for arm, row in arms.items()
    }


def delivery(
    topic: Key, parts: Sequence[Seen | None], idle_s: float, end_us: int, unordered: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Compare what producers were told with what each subscription got.

    Order is that of one producer at one consumer, first deliveries only; topics have one partition. Where
    each message is a call of its own, one that was sent before another was answered may overtake it. What a
    subscription that began late could not get counts as lost: scenarios attach consumers first.

    A message that did not come is lost if a later one of its producer came, or if nothing came any more: the
    consumers of its arm read on for `idle_s`, three mean gaps and the longest way of any message after it.
    Otherwise that is unknown, and it is unread.

    :param topic: system, door and topic.
    :param parts: see `seen`; together, as a message may come much later than it was sent.
    :param idle_s: for so long at least they have to read on.
    :param end_us: until when its arm was read, see `read_until`.
    :param unordered: systems where two messages that are under way at once have no order.
    :return: for each `system`, `door`, `topic`, `phase` in which messages were sent, and `subscription` that
        a consumer had: `acknowledged` (messages that producers were told to be stored), `received`
        (different messages), `lost`, `unread`, `duplicates` (deliveries too many), `reordered`, `altered`
        (received with another size than it was sent with), `told_refused` (received, though refused),
        `told_nothing` (received, and the answer did not tell).
    """
    known = [part for part in parts if part is not None]
    if not known:
        return []
    all_seen = known[0] if len(known) == 1 else _joined(known)
    answers, came = all_seen.answers, all_seen.came
    producers = {number: _messages(answers, rows) for number, rows in _by(answers.producer)}
    rows = []
    for reader in sorted(all_seen.subscribed) if producers else ():
        own = _of(came, came.reader == reader)
        theirs = dict(_by(own.producer))
        nothing = np.zeros(0, np.int64)
        met = [
            _met(messages, _of(own, theirs.get(number, nothing)), calls=topic[0] in unordered)
            for number, messages in producers.items()
        ]
        for phase, counts in _counted(met, idle_s * 1e6, end_us):
            key = {**dict(zip(TOPIC_COLUMNS, topic, strict=True)), "phase": all_seen.phases[phase]}
            rows.append({**key, "subscription": all_seen.readers[reader], **counts})
    return rows


_SEEN = (
    *("time_us", "phase", "client", "role", "event", "subscription", "producer", "sequence"),
    *("delay_ms", "published_us", "messages", "bytes"),
)


def seen(topic: Topic) -> Seen | None:
    """What producers were told, what consumers got, and the subscriptions that any consumer had.

    :return: None where clients saw nothing.
    """
    if topic.name is None or not topic.is_observed:
        return None
    clients, phases, readers = Names(), Names(), Names()
    answers, came = [], []
    subscribed: set[int] = set()
    for piece in topic.observations(*_SEEN):
        event, role, sequence = piece.text("event"), piece.text("role"), piece.number("sequence", NEVER)
        client, reader = clients.of(piece.text("client")), readers.of(piece.text("subscription"))
        of_consumer = role.among("consumer")
        size = np.where(piece.number("messages") == 1, piece.number("bytes", NEVER), NEVER)
        # One that attached and got nothing lost everything: what was received alone would not tell of it.
        subscribed.update(np.unique(reader[of_consumer & event.among("received", "attached")]).tolist())
        replies = Answers(
            client,
            sequence,
            phases.of(piece.text("phase")),
            event.among("acknowledged"),
            event.among("refused"),
            piece.number("time_us"),
            piece.number("delay_ms") * 1_000,
            size,
        )
        answers.append(
            _of(replies, role.among("producer") & event.among("acknowledged", "refused", "failed"))
        )
        producer, published_us = clients.of(piece.text("producer")), piece.number("published_us", NEVER)
        deliveries = Came(producer, sequence, reader, client, piece.number("time_us"), published_us, size)
        known = piece.known("producer") & piece.known("sequence")
        came.append(_of(deliveries, of_consumer & event.among("received") & known))
    return Seen(_end_to_end(answers), _end_to_end(came), frozenset(subscribed), clients, phases, readers)


def _joined(parts: Sequence[Seen]) -> Seen:
    """Several slices as one, with one numbering."""
    clients, phases, readers = Names(), Names(), Names()
    answers, came = [], []
    subscribed: set[int] = set()
    for part in parts:
        client, phase = clients.of_others(part.clients), phases.of_others(part.phases)
        reader = readers.of_others(part.readers)
        own = part.answers
        answers.append(own._replace(producer=client[own.producer], phase=phase[own.phase]))
        theirs = part.came
        producer, consumer = client[theirs.producer], client[theirs.consumer]
        came.append(theirs._replace(producer=producer, consumer=consumer, reader=reader[theirs.reader]))
        subscribed.update(int(reader[number]) for number in part.subscribed)
    return Seen(_end_to_end(answers), _end_to_end(came), frozenset(subscribed), clients, phases, readers)


def _end_to_end(parts: Sequence[_Columns]) -> _Columns:
    made: Any = parts[0]  # as for `_of`
    joined: _Columns = made._make(map(np.concatenate, zip(*parts, strict=True)))
    return joined


def _of(columns: _Columns, rows: Numbers | Flags) -> _Columns:
    """Those rows."""
    made: Any = columns  # mypy takes `_make` of a variable type for one of no type
    chosen: _Columns = made._make(column[rows] for column in columns)
    return chosen


def _by(numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each of these numbers, with the indices where it stands."""
    order = np.argsort(numbers, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        if len(rows):
            yield int(numbers[rows[0]]), rows


def _messages(answers: Answers, rows: Numbers) -> Answers:
    """The messages of a producer, in its order; each may have been answered more than once."""
    rows = rows[np.argsort(answers.sequence[rows], kind="stable")]
    begins = np.flatnonzero(np.diff(answers.sequence[rows], prepend=np.iinfo(np.int64).max))
    own = _of(answers, rows)
    stored = np.logical_or.reduceat(own.stored, begins)
    return Answers(
        own.producer[begins],
        own.sequence[begins],
        np.minimum.reduceat(own.phase, begins),
        stored,
        np.logical_or.reduceat(own.refused, begins) & ~stored,
        np.maximum.reduceat(own.told_us, begins),
        np.maximum.reduceat(own.delay_us, begins),
        np.maximum.reduceat(own.size, begins),
    )


def _met(answers: Answers, came: Came, *, calls: bool) -> _Met:
    """What became of a producer's messages at one subscription."""
    count = len(answers.sequence)
    times, came_us, late = np.zeros(count, np.int64), np.full(count, _LATER), np.zeros(count, np.bool_)
    altered = np.zeros(count, np.bool_)
    if len(came.sequence):
        order = np.lexsort((came.came_us, came.sequence))
        begins = np.flatnonzero(np.diff(came.sequence[order], prepend=NEVER))
        first = _of(came, order[begins])
        behind, ahead_us = _out_of_order(first)
        index = np.minimum(np.searchsorted(answers.sequence, first.sequence), count - 1)
        known = answers.sequence[index] == first.sequence
        index = index[known]
        times[index] = np.diff(begins, append=len(order))[known]
        came_us[index] = first.came_us[known]
        beside = calls & (ahead_us[known] != NEVER) & (ahead_us[known] < answers.told_us[index])
        late[index] = behind[known] & ~beside
        sent, got = answers.size[index], first.size[known]
        altered[index] = (sent != NEVER) & (got != NEVER) & (sent != got)
    # Messages without a number come first here; what followed them is unknown.
    later = np.minimum.accumulate(came_us[::-1])[::-1]
    return _Met(answers, times, came_us, late, altered, np.append(later[1:], _LATER))


def _out_of_order(first: Came) -> tuple[Flags, Numbers]:
    """Which of a producer's messages came after a later one, and when the last of those before was sent."""
    behind, ahead_us = np.zeros(len(first.sequence), np.bool_), np.full(len(first.sequence), NEVER)
    for _, rows in _by(first.consumer):
        rows = rows[np.lexsort((first.sequence[rows], first.came_us[rows]))]
        highest = np.maximum.accumulate(first.sequence[rows])
        behind[rows[1:]] = first.sequence[rows[1:]] < highest[:-1]
        ahead_us[rows[1:]] = np.maximum.accumulate(first.published_us[rows])[:-1]
    return behind, ahead_us


def _counted(met: Sequence[_Met], idle_us: float, end_us: int) -> Iterator[tuple[int, dict[str, int]]]:
    """The counts of each phase at one subscription."""
    answers = Answers._make(map(np.concatenate, zip(*(each.answers for each in met), strict=True)))
    times, came_us, late, altered, overtaken_us = map(
        np.concatenate, zip(*(each[1:] for each in met), strict=True)
    )
    came = times > 0
    due_us = answers.told_us + answers.delay_us
    known = overtaken_us != _LATER
    passed = np.maximum(np.where(known, overtaken_us, 0), due_us) + idle_us <= end_us
    waited = answers.stored & ~came
    gone, still = waited & known & passed, waited & ~(known & passed)
    quiet = _quiet(came_us[came], (came_us - answers.told_us)[came], due_us, idle_us, end_us)
    for phase in np.unique(answers.phase).tolist():
        here = answers.phase == phase
        counts = {
            "acknowledged": answers.stored,
            "received": came,
            "lost": gone | (still & quiet),
            "unread": still & ~quiet,
            "reordered": late,
            "altered": altered,
            "told_refused": answers.refused & came,
            "told_nothing": ~answers.stored & ~answers.refused & came,
        }
        numbers = {name: int(np.count_nonzero(rows & here)) for name, rows in counts.items()}
        yield phase, {**numbers, "duplicates": int((times - 1)[came & here].sum())}


def _quiet(came_us: Numbers, way_us: Numbers, due_us: Numbers, idle_us: float, end_us: int) -> Flags:
    """Whether nothing came any more for so long that what had not come when it was due was lost."""
    last_us, quiet_us = NEVER, idle_us
    if len(came_us):
        last_us = int(came_us.max())
        gap_us = (last_us - int(came_us.min())) / max(len(came_us) - 1, 1)
        quiet_us = max(idle_us, 3 * gap_us, int(way_us.max()))
    return np.maximum(due_us, last_us) + quiet_us <= end_us
