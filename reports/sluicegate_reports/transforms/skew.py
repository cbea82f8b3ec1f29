"""Clock skew of gates and clients, from the times at which each saw a message.

A gateway admits a message after its client sent it and before its client is told. This also holds for the
n-th send, decision and answer when each list is sorted by time, whatever order the messages were decided in:
sorting both sides of n pairs with a <= b preserves it. So each message bounds the difference from both sides,
and the narrowest bounds hold. Where the log tells of k more messages than were acknowledged (the broker
refused them, or nobody was told), any of them may come first: the n-th of the log is then compared with the
n-th that was told and with the (n-k)-th that was sent, and the other way round where it tells of fewer.
Refusals that name their decision are pairs of their own.

That is done for all clients of a topic together, and for each client that the log knows by the name that the
observations have, which is so on Kafka. Topics and clients that several gates served are left out: their
clocks may differ, and the n-th is then no longer the same.

A clock that drifts or is set gives bounds that no one difference satisfies. A new span begins where that
shows first, and has bounds of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from sluicegate_reports.transforms.packed import TOPIC_COLUMNS, Flags, Key, Numbers, Piece, Topic

EVERYBODY = "*"
"""Sentinel in place of a client: all of an arm together."""
_MOST = 100_000
"""Times of a list that are kept of a slice; of more, some evenly chosen ones."""
_MOST_IDS = 5_000
"""Refusals of a piece that are looked at one by one, about."""
_FAR_US = 1 << 62
_SPANS = 500
"""Of a list, at most; the last one takes the rest."""
_ALONE_US = 20_000_000
"""A gateway has to be alone for so long at least, lest another one's clock is what makes it look first."""


Clock: TypeAlias = tuple[str, str]
"""A gateway and its host, see `Place.clock`."""


class _Times(NamedTuple):
    """Some of the times of a list in order, and how many of the list are up to each."""

    at_us: Numbers
    number: Numbers
    total: int


class _Decided(NamedTuple):
    """Times of admissions, with the numbers of the first and the last message of each."""

    at_us: Numbers
    first: Numbers
    last: Numbers
    window_us: Numbers
    total: int


class _Lists(NamedTuple):
    """Times in a slice of a topic, of one client or of all."""

    gates: Mapping[Clock, int]
    """When each gateway decided first."""
    decided: _Decided
    sent: _Times
    answered: _Times


class _Pairs(NamedTuple):
    """Bounds of single messages, in order of the time by the client's clock."""

    at_us: Numbers
    least_us: Numbers
    most_us: Numbers


class OfSlice(NamedTuple):
    """Evidence of a slice about clocks."""

    lists: Mapping[str, _Lists]
    decided: Mapping[str, tuple[Clock, int, int]]
    """Refusals by id: whose clock, time and length of the window in us."""
    refused: Mapping[str, tuple[str, int, int]]
    """By id of the decision: client, and when it sent and was told."""


def of_slice(topic: Topic) -> OfSlice:
    """What a topic, or a slice of it, tells of clocks."""
    if topic.is_whole and not topic.is_observed:
        return OfSlice({}, {}, {})
    decided, replied = _Gathered(), _Gathered()
    gates: dict[str, dict[Clock, int]] = {}
    refusals: dict[str, tuple[Clock, int, int]] = {}
    refused: dict[str, tuple[str, int, int]] = {}
    for piece in topic.decisions(*_DECIDED):
        at_us, (clocks, clock) = piece.number("time_us"), _clocks(piece)
        rows = piece.text("operation").among("publish") & piece.text("action").among("allow", "rewrite")
        for who, own in _by_client(piece, rows):
            decided.add(who, at_us[own], piece.number("messages")[own], piece.number("window")[own] * 1000)
            for name, first_us in _first(clocks, clock[own], at_us[own]):
                before_us = gates.setdefault(who, {}).get(name, first_us)
                gates[who][name] = min(before_us, first_us)
        refusals.update(_decided_by_id(piece))
    for piece in topic.observations(*_SEEN):
        answered_us = piece.number("time_us")
        sent_us = answered_us - piece.number("latency_ns") // 1000
        for who, own in _by_client(piece, _answered(piece, "acknowledged")):
            replied.add(who, sent_us[own], answered_us[own])
        refused.update(_refused_by_id(piece, sent_us, answered_us))
    lists = {}
    for who in sorted({*decided, *replied}):
        sent, answered = (_times(times) for times in replied.columns(who, 2))
        lists[who] = _Lists(gates.get(who, {}), _of_decided(*decided.columns(who, 3)), sent, answered)
    return OfSlice(lists, refusals, refused)


_DECIDED = (
    *("time_us", "gateway", "host", "client", "operation", "action", "messages", "window", "decision_id"),
)
_SEEN = ("time_us", "client", "role", "event", "latency_ns", "decision_id")


class _Gathered(dict[str, list[tuple[Numbers, ...]]]):
    """Columns by client, piece by piece."""

    def add(self, who: str, *columns: Numbers) -> None:
        self.setdefault(who, []).append(columns)

    def columns(self, who: str, count: int) -> list[Numbers]:
        parts = self.get(who) or [(np.zeros(0, np.int64),) * count]
        return [np.concatenate(each) for each in zip(*parts, strict=True)]


def _answered(piece: Piece, event: str) -> Flags:
    rows = piece.text("role").among("producer") & piece.text("event").among(event)
    return rows & piece.known("latency_ns")


def _by_client(piece: Piece, rows: Flags) -> Iterator[tuple[str, Numbers]]:
    """All of these rows, and those of each client that has a name."""
    indices = np.flatnonzero(rows)
    if not len(indices):
        return
    yield EVERYBODY, indices
    client = piece.text("client")
    names = sorted({name.partition("@")[0] for name in client.names})
    number = np.array([*(names.index(name.partition("@")[0]) for name in client.names), -1])
    code = number[client.codes[indices]]
    order = np.argsort(code, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
        if code[own[0]] >= 0:
            yield names[code[own[0]]], indices[own]


def _clocks(piece: Piece) -> tuple[list[Clock], Numbers]:
    """The clocks of some rows, and the number of each row's."""
    gateway, host = piece.text("gateway"), piece.text("host")
    names = [*product((*gateway.names, ""), (*host.names, ""))]
    codes = gateway.codes.astype(np.int64) % (len(gateway.names) + 1)
    return names, codes * (len(host.names) + 1) + host.codes % (len(host.names) + 1)


def _first(clocks: Sequence[Clock], clock: Numbers, at_us: Numbers) -> Iterator[tuple[Clock, int]]:
    """When each gateway decided first."""
    for number in np.unique(clock).tolist():
        yield clocks[number], int(at_us[clock == number].min())


def _of_decided(at_us: Numbers, messages: Numbers, window_us: Numbers) -> _Decided:
    order = np.argsort(at_us, kind="stable")
    last = np.cumsum(messages[order])
    some = _some(len(order))
    first = last - messages[order] + 1
    total = int(last[-1]) if len(last) else 0
    return _Decided(at_us[order][some], first[some], last[some], window_us[order][some], total)


def _times(times: Numbers) -> _Times:
    ordered = np.sort(times)
    some = _some(len(ordered))
    return _Times(ordered[some], some + 1, len(ordered))


def _some(count: int) -> Numbers:
    """Indices of all, or of some evenly chosen ones."""
    return np.arange(0, count, max(-(-count // _MOST), 1))


def _decided_by_id(piece: Piece) -> Iterator[tuple[str, tuple[Clock, int, int]]]:
    names, clock = _clocks(piece)
    columns = clock, piece.number("time_us"), piece.number("window") * 1000
    for decision_id, code, at, window in _each(piece, piece.known("decision_id"), *columns):
        yield decision_id, (names[code], at, window)


def _refused_by_id(
    piece: Piece, sent_us: Numbers, answered_us: Numbers
) -> Iterator[tuple[str, tuple[str, int, int]]]:
    rows = _answered(piece, "refused") & piece.known("decision_id")
    client = piece.text("client")
    names = [*client.names, EVERYBODY]
    for decision_id, code, sent, at in _each(piece, rows, client.codes, sent_us, answered_us):
        yield decision_id, (names[code], sent, at)


def _each(piece: Piece, rows: Flags, *columns: np.ndarray[Any, np.dtype[Any]]) -> Iterator[tuple[Any, ...]]:
    """The ids of decisions in these rows, with further columns; of very many some, in both logs the same."""
    count = int(np.count_nonzero(rows))
    if not count:
        return
    share = 1 << max(0, (count // _MOST_IDS).bit_length())
    ids = piece.each("decision_id", rows)
    chosen = ids if share == 1 else [crc32(decision_id.encode()) % share == 0 for decision_id in ids]
    values_of = (column[rows].tolist() for column in columns)
    for decision_id, is_chosen, *values in zip(ids, chosen, *values_of, strict=True):
        if is_chosen:
            yield (decision_id, *values)


def spans(topic: Key, parts: Sequence[OfSlice]) -> list[dict[str, Any]]:
    """Bounds of gate minus client that the messages of a topic set.

    :param parts: in order of time.
    :return: `system`, `door`, `topic`, `gateway`, `host`, `who` (a client, or EVERYBODY), `from_us` and
        `until_us` by its clock, `pairs` (messages that set the bounds), `at_least_us`, `at_most_us` (infinite
        where nothing tells).
    """
    rows: list[dict[str, Any]] = []
    for who in sorted({who for part in parts for who in part.lists}):
        lists = [part.lists[who] for part in parts if who in part.lists]
        clock, until_us = _one_gateway(lists)
        if clock is not None:
            rows += ({**_named(clock), "who": who, **row} for row in _spans(_set_against(lists, until_us)))
    for (clock, who), pairs in _by_id(parts):
        rows += ({**_named(clock), "who": who, **row} for row in _spans(pairs))
    return [{**dict(zip(TOPIC_COLUMNS, topic, strict=True)), **row} for row in rows]


def _named(clock: Clock) -> dict[str, str]:
    return dict(zip(("gateway", "host"), clock, strict=True))


def _one_gateway(lists: Sequence[_Lists]) -> tuple[Clock | None, int]:
    """The one that decided at the begin, and until when it was the only one; None if there were several."""
    first_us: dict[Clock, int] = {}
    for name, at_us in (each for part in lists for each in part.gates.items()):
        first_us[name] = min(first_us.get(name, at_us), at_us)
    if not first_us:
        return None, _FAR_US
    first, *others = sorted(first_us, key=lambda name: first_us[name])
    until_us = min((first_us[name] for name in others), default=_FAR_US)
    alone = until_us >= first_us[first] + _ALONE_US
    return (first if alone else None), until_us


def _set_against(lists: Sequence[_Lists], until_us: int) -> _Pairs:
    decided = _joined_decided([each.decided for each in lists])
    sent, answered = (
        _joined_times([each.sent for each in lists]),
        _joined_times([each.answered for each in lists]),
    )
    # What only one of the two tells of may stand anywhere before the n-th of the other.
    more = decided.total - answered.total
    sent_us, is_sent = _nth(sent, decided.last - max(more, 0), later=False)
    answered_us, is_answered = _nth(answered, decided.first + max(-more, 0), later=True)
    known = (is_sent | is_answered) & (decided.at_us < until_us)
    least_us = np.where(is_answered, decided.at_us - answered_us, -_FAR_US)
    most_us = np.where(is_sent, decided.at_us + decided.window_us - sent_us, _FAR_US)
    at_us = np.where(is_sent, sent_us, answered_us)
    return _Pairs(at_us[known], least_us[known], most_us[known])


def _joined_decided(several: Sequence[_Decided]) -> _Decided:
    before, parts = 0, []
    for each in several:
        parts.append((each.at_us, each.first + before, each.last + before, each.window_us))
        before += each.total
    at_us, first, last, window_us = map(np.concatenate, zip(*parts, strict=True))
    return _Decided(at_us, first, last, window_us, before)


def _joined_times(several: Sequence[_Times]) -> _Times:
    before, parts = 0, []
    for each in several:
        parts.append((each.at_us, each.number + before))
        before += each.total
    at_us, number = map(np.concatenate, zip(*parts, strict=True))
    return _Times(at_us, number, before)


def _nth(times: _Times, number: Numbers, *, later: bool) -> tuple[Numbers, Flags]:
    """The n-th of some times, from 1 on, and whether there is one.

    :param later: whether a later one stands for one that was not kept, or an earlier one.
    """
    index = np.searchsorted(times.number, number, "left" if later else "right") - (not later)
    known = (number >= 1) & (number <= times.total) & (index >= 0) & (index < len(times.number))
    at_us = np.append(times.at_us, 0)[np.where(known, index, -1)]
    return at_us, known


def _by_id(parts: Sequence[OfSlice]) -> Iterator[tuple[tuple[Clock, str], _Pairs]]:
    """Refused messages whose text names their decision: no other can be meant."""
    decided = {decision_id: row for part in parts for decision_id, row in part.decided.items()}
    bounds: dict[tuple[Clock, str], list[tuple[int, int, int]]] = {}
    for decision_id, (client, sent_us, answered_us) in (
        each for part in parts for each in part.refused.items()
    ):
        if decision_id in decided:
            clock, at_us, window_us = decided[decision_id]
            for who in {client, EVERYBODY}:
                own = bounds.setdefault((clock, who), [])
                own.append((sent_us, at_us - answered_us, at_us + window_us - sent_us))
    for key, rows in sorted(bounds.items()):
        yield key, _Pairs(*np.array(sorted(rows)).T)


def _spans(pairs: _Pairs) -> Iterator[dict[str, Any]]:
    """Times that one difference satisfies each, as long as possible."""
    begin = 0
    for number in range(_SPANS):
        if begin == len(pairs.at_us):
            return
        least = np.maximum.accumulate(pairs.least_us[begin:])
        most = np.minimum.accumulate(pairs.most_us[begin:])
        apart = np.flatnonzero(least > most)
        # A message that contradicts itself is a span alone.
        length = max(int(apart[0]), 1) if len(apart) and number < _SPANS - 1 else len(least)
        yield {
            "from_us": int(pairs.at_us[begin]),
            "until_us": int(pairs.at_us[begin + length - 1]),
            "pairs": length,
            "at_least_us": _bound(least[length - 1]),
            "at_most_us": _bound(most[length - 1]),
        }
        begin += length


def _bound(us: np.int64) -> float:
    return float(us) if abs(us) < _FAR_US else float(np.copysign(np.inf, us))
