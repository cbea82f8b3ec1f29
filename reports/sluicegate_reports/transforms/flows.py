"""Flows: what a rate limit admitted or not, from the decision log and from observations.

Of each: `client`, `at_us` (since the lane began, by the source's own clock), `amount` (in what the lane
counts), `window_ms` (how exact the time is: 0, or the length of a summary's window), `action`:

- `ADMITTED`: it passed; a producer's message when it was acknowledged, a consumer's when it came;
- `REFUSED`, `DROPPED`; `HELD`: it has to wait, and is admitted later as a row of its own;
- `OFFERED`: a client wants it (clients only: what a gateway is asked is what it admits, refuses and drops);
- `FAILED`: no answer came to a client, or none that tells whether it passed;
- `OTHERWISE`: refused, dropped or held by another policy, so that this limit was not asked.

`messages` is how many a row stands for, `until_us` until when a gateway said that it holds it, `since_us` the
first moment at which what a client saw may have been decided: when it sent it, NEVER if that is not known.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sluicegate_reports.transforms.by_place import PLACE_COLUMNS, Place, by_place
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.packed import (
    ATTACHING,
    NEVER,
    SEPARATOR,
    Flags,
    Numbers,
    Piece,
    Text,
    Topic,
)

LOG, CLIENTS = "log", "clients"
ACTIONS = ("admitted", "refused", "dropped", "held", "offered", "failed", "otherwise")
ADMITTED, REFUSED, DROPPED, HELD, OFFERED, FAILED, OTHERWISE = range(len(ACTIONS))
_NONE = -1
_OF_LOG = {"allow": ADMITTED, "rewrite": ADMITTED, "reject": REFUSED, "drop": DROPPED, "delay": HELD}
_OF_PRODUCER = {"sent": OFFERED, "acknowledged": ADMITTED, "refused": REFUSED, "failed": FAILED}
_ATTACHING = {"attached": ADMITTED, "attach_refused": REFUSED}
_EDGE_US = 100_000
"""Bound on the difference between clocks of one machine, or estimated ones."""


class Flows(NamedTuple):
    """Some of a lane's flows, from one source; see the module."""

    client: Text
    at_us: Numbers
    amount: Numbers
    window_ms: Numbers
    action: Numbers
    messages: Numbers
    until_us: Numbers
    """NEVER of what is not held."""
    since_us: Numbers

    def are(self, *actions: int) -> Flags:
        """Rows with one of these actions."""
        return np.isin(self.action, actions)


class SourceFlows(NamedTuple):
    """Some flows, and who tells them."""

    lane: Lane
    source: str
    place: Place
    """Of what clients tell, none."""
    flows: Flows


def of_topic(topic: Topic, lanes: Sequence[Lane]) -> Iterator[SourceFlows]:
    """The flows of a topic's lanes, piece by piece; those of each place apart."""
    if not lanes:
        return
    for piece in topic.decisions(*_DECIDED):
        for place, own in by_place(piece):
            yield from (SourceFlows(lane, LOG, place, flows) for lane, flows in from_decisions(own, lanes))
    for piece in topic.observations(*_SEEN):
        yield from (
            SourceFlows(lane, CLIENTS, Place(), flows) for lane, flows in from_observations(piece, lanes)
        )


_DECIDED = (
    *("time_us", "client", "operation", "subscription", "policy", "others", "action"),
    *("delay", "bytes", "messages", "decisions", "window", *PLACE_COLUMNS),
)
_SEEN = ("time_us", "client", "role", "event", "subscription", "messages", "bytes", "latency_ns")


def from_decisions(piece: Piece, lanes: Sequence[Lane]) -> Iterator[tuple[Lane, Flows]]:
    """The decisions that belong to each lane; what was only observed (`would_...`) is none."""
    operation, action = piece.text("operation"), _renamed(piece.text("action"), _OF_LOG)
    policy, others = piece.text("policy"), piece.text("others")
    time_us, window_ms = piece.number("time_us"), piece.number("window")
    delay_us = piece.number("delay") / 1000
    attaching = operation.among(*ATTACHING)
    messages = np.where(attaching, piece.number("decisions"), piece.number("messages"))
    limited = np.isin(action, (REFUSED, DROPPED, HELD))
    never = np.full(len(time_us), NEVER)
    for lane in lanes:
        # A window belongs to the lane if a part of it does.
        # What a gateway decided just before belongs to a first trial too: clocks are known to some ms, and
        # one message less in a bucket that was full makes every later refusal look wrong.
        early_us = _EDGE_US if lane.full else 0
        begun = time_us + window_ms * 1000 >= lane.gate_begin_us - early_us
        asked = attaching if lane.operation == "attach" else operation.among(lane.operation) & ~attaching
        rows = begun & (time_us < lane.gate_end_us) & asked & (action != _NONE)
        rows &= _of_subscription(piece, lane)
        by_another = limited & ~policy.among(None, lane.policy) & ~_naming(others, lane.policy)
        at_us = np.maximum(time_us - lane.gate_begin_us, 0)
        until_us = np.where(~by_another & (action == HELD), (at_us + delay_us).astype(np.int64), NEVER)
        outcome = np.where(by_another, OTHERWISE, action)
        yield lane, _flows(piece, lane, rows, at_us, window_ms, outcome, messages, until_us, never)


def from_observations(piece: Piece, lanes: Sequence[Lane]) -> Iterator[tuple[Lane, Flows]]:
    """What clients saw that belongs to each lane."""
    event, of_producer = piece.text("event"), piece.text("role").among("producer")
    attached = _renamed(event, _ATTACHING)
    attaching = attached != _NONE
    of_messages = np.where(
        of_producer, _renamed(event, _OF_PRODUCER), _renamed(event, {"received": ADMITTED})
    )
    action = np.where(attaching, attached, of_messages)
    asked = {"attach": attaching, "publish": of_producer & ~attaching, "dispatch": ~of_producer & ~attaching}
    time_us, messages = piece.number("time_us"), piece.number("messages")
    none, never = np.zeros(len(time_us), np.int64), np.full(len(time_us), NEVER)
    asked_us, is_known = time_us - piece.number("latency_ns") // 1000, piece.known("latency_ns")
    for lane in lanes:
        rows = (
            (time_us >= lane.begin_us) & (time_us < lane.end_us) & asked[lane.operation] & (action != _NONE)
        )
        rows &= _of_subscription(piece, lane)
        at_us = np.maximum(time_us - lane.begin_us, 0)
        since_us = np.where(is_known, asked_us - lane.begin_us, NEVER)
        yield lane, _flows(piece, lane, rows, at_us, none, action, messages, never, since_us)


def _flows(piece: Piece, lane: Lane, rows: Flags, *columns: Numbers) -> Flows:
    at_us, window_ms, action, messages, *others = (column[rows] for column in columns)
    amount = piece.number("bytes")[rows] if lane.counts == "bytes" else messages
    return Flows(piece.text("client").where(rows), at_us, amount, window_ms, action, messages, *others)


def _of_subscription(piece: Piece, lane: Lane) -> Flags | bool:
    return True if lane.subscription is None else piece.text("subscription").among(lane.subscription)


def _naming(others: Text, policy: str) -> Flags:
    """Rows of which a further reason is of this policy."""
    return others.among(*(name for name in others.names if policy in name.split(SEPARATOR)))


def _renamed(text: Text, names: dict[str, int]) -> Numbers:
    return np.array([*(names.get(name, _NONE) for name in text.names), _NONE])[text.codes]
