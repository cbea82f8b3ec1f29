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
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluicegate_reports.transforms.packed import Flags, Names, Numbers, Part, Piece, Text, Topic

EVERYBODY = "*"
"""In place of a client: all of an arm together."""
_SECOND_US = 1_000_000
_START_US = 20 * _SECOND_US
_FIRST = 1_000
"""Messages of a topic, and of a client on it, that are looked at, from its start: more would narrow the
bounds by little."""
_Bounds: TypeAlias = tuple[str, str, int, float, float]
"""Gateway, who, pairs, and between what the difference lies; infinite where nothing tells."""


class _Told(NamedTuple):
    """When messages were sent and told to be stored, or refused."""

    client: Numbers
    sent_us: Numbers
    told_us: Numbers


class _Decided(NamedTuple):
    """When what was admitted was decided."""

    client: Numbers
    gateway: Numbers
    decided_us: Numbers
    messages: Numbers
    window_us: Numbers


def skew(topic: Topic) -> Iterator[Part]:
    """Bounds of gate minus client that the messages of a topic set, by arm; see `skew_together`."""
    clients, gates = Names(), Names()
    pieces = [_decisions(piece, clients, gates) for piece in topic.decisions(*_DECIDED)]
    answers = [
        _answers(piece, clients, _answered(piece, "acknowledged")) for piece in topic.observations(*_SEEN)
    ]
    if not pieces or not answers:
        return
    decided = _Decided._make(map(np.concatenate, zip(*pieces, strict=True)))
    told = _Told._make(map(np.concatenate, zip(*answers, strict=True)))
    found = [*_by_order(told, decided, clients, gates), *_by_id(topic)]
    if found:
        yield topic.arm, found


def skew_together(key: tuple[str, str], parts: Sequence[Sequence[_Bounds]]) -> Iterator[dict[str, Any]]:
    """Bounds of gate minus client of an arm, in us.

    :return: `system`, `door`, `gateway`, `who` (a client, or EVERYBODY), `pairs` (messages that bound it),
        `at_least_us`, `at_most_us`; if the first is above the second, the clocks have drifted during the run.
    """
    found: dict[tuple[str, str], tuple[int, float, float]] = {}
    for gateway, who, pairs, low, high in (bounds for part in parts for bounds in part):
        count, least, most = found.get((gateway, who), (0, float("-inf"), float("inf")))
        found[gateway, who] = (count + pairs, max(least, low), min(most, high))
    for (gateway, who), (pairs, low, high) in sorted(found.items()):
        if np.isfinite([low, high]).all():
            place = {"system": key[0], "door": key[1], "gateway": gateway, "who": who}
            yield {**place, "pairs": pairs, "at_least_us": int(low), "at_most_us": int(high)}


_DECIDED = ("time_us", "gateway", "client", "operation", "action", "messages", "window")
_SEEN = ("time_us", "client", "role", "event", "latency_ns")


def _decisions(piece: Piece, clients: Names, gates: Names) -> tuple[Numbers, ...]:
    admitted = piece.text("operation").among("publish") & piece.text("action").among("allow", "rewrite")
    client = piece.text("client")
    named = Text(client.codes, [name.partition("@")[0] for name in client.names])
    return tuple(
        column[admitted]
        for column in (
            clients.of(named),
            gates.of(piece.text("gateway")),
            piece.number("time_us"),
            piece.number("messages"),
            piece.number("window") * 1000,
        )
    )


def _answers(piece: Piece, clients: Names, rows: Flags) -> tuple[Numbers, ...]:
    told_us = piece.number("time_us")[rows]
    sent_us = told_us - piece.number("latency_ns")[rows] // 1000
    return clients.of(piece.text("client"))[rows], sent_us, told_us


def _answered(piece: Piece, event: str) -> Flags:
    rows = piece.text("role").among("producer") & piece.text("event").among(event)
    return rows & piece.known("latency_ns")


def _by_order(told: _Told, decided: _Decided, clients: Names, gates: Names) -> Iterator[_Bounds]:
    """The n-th message of each against the n-th; see the module."""
    if not len(decided.decided_us):
        return
    # Only the start of each topic is looked at, by its own clock, which may be hours away from the clients'.
    early_us = int(decided.decided_us.min()) + _START_US
    begun = decided.decided_us // _SECOND_US * _SECOND_US < early_us
    no_gate = gates.number(None)
    for who, rows, answers in _each(told, decided, clients):
        own_gates = np.unique(decided.gateway[rows[begun[rows]]])
        if len(own_gates) != 1 or own_gates[0] == no_gate:
            continue
        theirs = _Told._make(column[answers] for column in told)
        bounds = _set_against(theirs, _Decided._make(column[rows] for column in decided), early_us)
        if bounds:
            yield (str(gates[int(own_gates[0])]), who, *bounds)


def _each(told: _Told, decided: _Decided, clients: Names) -> Iterator[tuple[str, Numbers, Numbers]]:
    """The rows of all clients together and of each, in both logs, where both have any."""
    if len(told.client):
        yield EVERYBODY, np.arange(len(decided.client)), np.arange(len(told.client))
    in_log, seen = _rows_of(decided.client), _rows_of(told.client)
    for number in sorted(in_log.keys() & seen.keys()):
        name = clients[number]
        if name is not None:
            yield name, in_log[number], seen[number]


def _rows_of(client: Numbers) -> dict[int, Numbers]:
    order = np.argsort(client, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(client[order])) + 1)
    return {int(client[rows[0]]): rows for rows in parts if len(rows)}


def _set_against(told: _Told, decided: _Decided, early_us: int) -> tuple[int, float, float] | None:
    # What only one of the two tells of may stand anywhere before the n-th of the other.
    more = int(decided.messages.sum()) - len(told.told_us)
    order = np.argsort(decided.decided_us, kind="stable")
    last = np.cumsum(decided.messages[order])
    rows = order[(last <= _FIRST) & (decided.decided_us[order] < early_us)]
    last = np.cumsum(decided.messages[rows])
    first = last - decided.messages[rows] + 1
    sent_us, is_sent = _nth(told.sent_us, last - max(more, 0))
    told_us, is_told = _nth(told.told_us, first + max(-more, 0))
    pairs = int(np.count_nonzero(is_sent | is_told))
    least = (decided.decided_us[rows] - told_us)[is_told].max(initial=-(1 << 62))
    most = (decided.decided_us[rows] + decided.window_us[rows] - sent_us)[is_sent].min(initial=1 << 62)
    return (pairs, *_ends(int(least), int(most))) if pairs else None


def _ends(least: int, most: int) -> tuple[float, float]:
    return (least if least > -(1 << 62) else float("-inf")), (most if most < 1 << 62 else float("inf"))


def _nth(times: Numbers, number: Numbers) -> tuple[Numbers, Flags]:
    """Of some times the n-th, from 1 on, in order; and whether there is one among the first."""
    ordered = np.sort(times)[:_FIRST]
    known = (number >= 1) & (number <= len(ordered))
    return ordered[np.where(known, number - 1, 0)], known


def _by_id(topic: Topic) -> Iterator[_Bounds]:
    """Refused messages whose text names their decision: no other can be meant."""
    clients, gates = Names(), Names()
    ids, told = [], []
    for piece in topic.observations(*_SEEN, "decision_id"):
        rows = _answered(piece, "refused") & piece.known("decision_id")
        ids += piece.each("decision_id", rows)
        told.append(_answers(piece, clients, rows))
    if not ids:
        return
    client, sent_us, told_us = map(np.concatenate, zip(*told, strict=True))
    for piece in topic.decisions("time_us", "gateway", "window", "decision_id"):
        known = piece.known("decision_id")
        place = pc.index_in(pa.array(ids), pa.array(piece.each("decision_id", known), pa.string()))
        pairs = place.is_valid().to_numpy(zero_copy_only=False)
        at = place.drop_null().to_numpy()
        gateway = gates.of(piece.text("gateway"))[known][at]
        decided_us, window_us = piece.number("time_us")[known][at], piece.number("window")[known][at] * 1000
        low, high = decided_us - told_us[pairs], decided_us + window_us - sent_us[pairs]
        told_of = {clients[number]: own for number, own in _rows_of(client[pairs]).items()}
        for who, chosen in (told_of | {EVERYBODY: np.arange(len(at))}).items():
            for gate, own in _rows_of(gateway[chosen]).items():
                bounds = float(low[chosen[own]].max()), float(high[chosen[own]].min())
                yield str(gates[gate]), str(who), len(own), *bounds


def ahead_us(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """By how much gates' clocks are ahead of the clients': the middle of the bounds, by system and door.

    Bounds that include 0 give no entry: equal clocks are likeliest. The bounds are those that hold for all
    clients and gates of an arm. If none do, they are the mean ones of EVERYBODY, or of all rows if it has
    none.

    :param rows: see `skew`.
    """
    arms: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        arms.setdefault((row["system"], row["door"]), []).append(row)
    found = {}
    for arm, told in arms.items():
        low = max(row["at_least_us"] for row in told)
        high = min(row["at_most_us"] for row in told)
        if low > high:
            chosen = [row for row in told if row["who"] == EVERYBODY] or told
            low = sum(row["at_least_us"] for row in chosen) / len(chosen)
            high = sum(row["at_most_us"] for row in chosen) / len(chosen)
        if not low <= 0 <= high:
            found[arm] = (low + high) / 2
    return found
