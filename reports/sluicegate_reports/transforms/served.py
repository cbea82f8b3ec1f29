"""Clients that were told they may not attach, and were served all the same."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sluicegate_reports.registry.arms import PRODUCERS
from sluicegate_reports.transforms.lanes import Try, tried_at
from sluicegate_reports.transforms.packed import NEVER, Key, Numbers, Part, Text, Topic

_SERVED = {"producer": "acknowledged", "consumer": "received"}


class Served(NamedTuple):
    """What one slice of a topic tells; clients are told by role and name."""

    attached: frozenset[tuple[str, str]]
    refused_us: Mapping[tuple[str, str], int]
    """When they were first."""
    last_us: Mapping[tuple[int, str, str], int]
    """When a client last got or stored a message during a trial."""


def served(topic: Topic, tried: Sequence[Try]) -> Iterator[Part]:
    """Who attached to a topic, was refused, or got or stored messages.

    :param tried: of counts.
    """
    own = tried_at(topic.place, tried)
    attached: set[tuple[str, str]] = set()
    refused_us: dict[tuple[str, str], int] = {}
    last_us: dict[tuple[int, str, str], int] = {}
    for piece in topic.observations("time_us", "client", "role", "event") if own else ():
        role, event, client = piece.text("role"), piece.text("event"), piece.text("client")
        at_us = piece.number("time_us")
        for row in piece.rows(event.among("attached", "attach_refused")).to_pylist():
            who, us = (row["role"], row["client"]), row["time_us"]
            if row["event"] == "attached":
                attached.add(who)
            else:
                refused_us[who] = min(refused_us.get(who, us), us)
        for each in own:
            of = "producer" if each.policy == PRODUCERS else "consumer"
            rows = role.among(of) & event.among(_SERVED[of])
            rows &= (at_us >= each.begin_us) & (at_us < each.end_us)
            for name, us in _last(client.where(rows), at_us[rows]):
                last_us[each.trial, of, name] = max(last_us.get((each.trial, of, name), us), us)
    if own and topic.is_observed:
        yield topic.place, Served(frozenset(attached), refused_us, last_us)


def _last(client: Text, at_us: Numbers) -> Iterator[tuple[str, int]]:
    last_us = np.full(len(client.names) + 1, NEVER)
    np.maximum.at(last_us, client.codes, at_us)
    for name, us in zip(client.names, last_us[:-1].tolist(), strict=True):
        if us != NEVER:
            yield name, us


def served_together(_: Key, parts: Sequence[Served]) -> Iterator[dict[str, Any]]:
    """How many clients got or stored messages after they were refused, and never attached to the topic.

    :return: `trial`, `served`; no row of a trial without one.
    """
    attached = frozenset[tuple[str, str]]().union(*(part.attached for part in parts))
    refused_us: dict[tuple[str, str], int] = {}
    for who, us in (each for part in parts for each in part.refused_us.items()):
        if who not in attached:
            refused_us[who] = min(refused_us.get(who, us), us)
    found: dict[int, set[str]] = {}
    for (trial, role, name), us in (each for part in parts for each in part.last_us.items()):
        if us > refused_us.get((role, name), us):
            found.setdefault(trial, set()).add(name)
    for trial, names in found.items():
        yield {"trial": trial, "served": len(names)}
