"""Clients that were told they may not attach, and were served all the same."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from sluicegate_reports.registry.arms import PRODUCERS
from sluicegate_reports.transforms.lanes import Try, tried_at
from sluicegate_reports.transforms.packed import NEVER, Flags, Key, Numbers, Part, Text, Topic

_SERVED = {"producer": "acknowledged", "consumer": "received"}
_ANSWERS = ("attached", "attach_refused")
_Last: TypeAlias = Mapping[tuple[str, int | str, str], int]
"""By role, what happened and client: when a client last got or stored a message during a trial, in us; of
_ANSWERS the first, and below 0."""


def served(topic: Topic, tried: Sequence[Try]) -> Iterator[Part]:
    """Clients that attached to a topic, were refused, or got or stored messages.

    :param tried: of counts.
    """
    own = tried_at(topic.topic_key, tried)
    for piece in topic.observations("time_us", "client", "role", "event") if own else ():
        event, client, at_us = piece.text("event"), piece.text("client"), piece.number("time_us")
        for role, does in _SERVED.items():
            here = piece.text("role").among(role)
            masks: list[tuple[int | str, Flags, Numbers]]
            masks = [(name, here & event.among(name), -at_us) for name in _ANSWERS]
            for each in own:
                if (each.policy == PRODUCERS) == (role == "producer"):
                    during = (at_us >= each.begin_us) & (at_us < each.end_us)
                    masks.append((each.trial, here & event.among(does) & during, at_us))
            for what, rows, us in masks:
                last = _last(client.where(rows), us[rows])
                yield topic.topic_key, {(role, what, name): each_us for name, each_us in last}


def _last(client: Text, at_us: Numbers) -> Iterator[tuple[str, int]]:
    last_us = np.full(len(client.names) + 1, NEVER)
    np.maximum.at(last_us, client.codes, at_us)
    for name, us in zip(client.names, last_us[:-1].tolist(), strict=True):
        if us != NEVER:
            yield name, us


def served_together(_: Key, parts: Sequence[_Last]) -> Iterator[dict[str, Any]]:
    """How many clients got or stored messages after they were refused, and never attached to the topic.

    :return: `trial`, `served`; no row of a trial without one.
    """
    last_us: dict[tuple[str, int | str, str], int] = {}
    for who, us in (each for part in parts for each in part.items()):
        last_us[who] = max(us, last_us.get(who, us))
    attached, refused = _ANSWERS
    clients_of = Counter(
        what
        for (role, what, client), us in last_us.items()
        if what not in _ANSWERS
        and (role, attached, client) not in last_us
        and us > -last_us.get((role, refused, client), -us)
    )
    for trial, clients in clients_of.items():
        yield {"trial": trial, "served": clients}
